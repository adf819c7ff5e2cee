// Hands a file to whoever looks at the page: `content` is a text, bytes, or an address that holds the data themselves.
export function saved(name, content, type) {
  const link = document.createElement("a");
  const whole = typeof content === "string" && content.startsWith("data:");
  link.href = whole ? content : URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

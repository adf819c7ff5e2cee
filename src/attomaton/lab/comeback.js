(() => {
  const {seal, path, port, start} = SETTINGS;
  const hex = (bytes) => [...new Uint8Array(bytes)].map((b) => b.toString(16).padStart(2, "0")).join("");
  async function sealed(who, what) {
    const text = new TextEncoder();
    const how = {name: "HMAC", hash: "SHA-256"};
    const key = await crypto.subtle.importKey("raw", text.encode(seal), how, false, ["sign"]);
    return hex(await crypto.subtle.sign("HMAC", key, text.encode(`${who} ${port} ${what}`)));
  }
  function say(first, then) {
    const spans = document.querySelectorAll("#popup span");
    if (spans.length > 1) [spans[0].textContent, spans[1].textContent] = [first, then];
  }
  const strange = "Open the address that attomaton lab printed in its terminal.";
  async function look() {
    const nonce = hex(crypto.getRandomValues(new Uint8Array(16)));
    const ask = (more, credentials) =>
      fetch(`${path}?${new URLSearchParams({nonce, ...more})}`, {credentials, cache: "no-store"});
    let answer;
    try { answer = await ask({}, "omit"); }
    catch { return say("The lab is not running.", "Start it again: this page comes back by itself."); }
    if (!answer.ok) return say("The lab has another key now.", strange);
    if (!crypto.subtle) return say("The lab was started again.", strange);
    const told = await answer.json();
    if (told.proof !== await sealed("lab", nonce)) return say("This is not the lab of before.", strange);
    if (told.start === start) return;
    const proof = await sealed("page", `${nonce} ${told.nonce}`);
    if ((await ask({proof}, "same-origin")).ok) location.reload();
  }
  let lost = 0, busy = false;
  setInterval(async () => {
    lost = window.socket && !window.socket.connected ? lost + 1 : 0;
    if (lost < 2 || busy) return;
    busy = true;
    try { await look(); } catch (error) { console.log(error); } finally { busy = false; }
  }, EVERY);
})();

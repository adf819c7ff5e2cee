"""What was learned, as plain data: the whole model, one last token, one document."""

from attomaton.summaries.document import document_lens
from attomaton.summaries.last_token import find_last_token, last_token_lens
from attomaton.summaries.model import model_summary

__all__ = ["document_lens", "find_last_token", "last_token_lens", "model_summary"]

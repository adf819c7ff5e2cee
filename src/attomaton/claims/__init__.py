"""Where prediction and measurement meet: one file for each theorem or figure."""

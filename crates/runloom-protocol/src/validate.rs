//! From JSON to a checked request, or every violation at once.

"""The report's sections, one module each: from ``ReportData`` to what the page shows."""

"""Speed, memory and accuracy, measured on the machine at hand; a bench is a file of this package."""

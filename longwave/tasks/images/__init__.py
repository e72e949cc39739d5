"""Classification of images, pixel by pixel."""

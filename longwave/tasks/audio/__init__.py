"""Classification of audio clips, raw or as MFCC."""

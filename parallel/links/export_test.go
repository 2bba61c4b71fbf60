package links

// Cut has pieces of so many bytes.
func (l *Edges) Cut(bytes int) { l.piece = bytes }

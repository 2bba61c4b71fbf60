package links

// Cut has windows of so many bytes.
func (l *Edges) Cut(bytes int) { l.bytes = bytes }

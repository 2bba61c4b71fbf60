package tensor

// moved are the bytes that all workers send where so many columns are split, aggregated and gathered.
func (a *Axis) moved(columns int) (bytes int64) {
	cut := even(columns, a.comm.Size())
	for p, start := range a.starts[:len(a.starts)-1] {
		for t, mine := range cut {
			rows := owned(a.starts[p+1]-start, len(cut), t)
			bytes += 2 * elementBytes * int64(rows) * int64(columns-mine.count)
		}
	}
	return bytes
}

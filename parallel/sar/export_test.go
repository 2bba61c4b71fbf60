package sar

// Exchanger is that of the partition's Source.
func (p *Partition) Exchanger() Exchanger { return p.from.Exchanger }

package autograd

// Random keys the dropout masks of one epoch.
type Random struct {
	Seed  uint64
	Epoch int
}

// Key returns the key of a dropout mask: a hash of the seed, the epoch and the module path.
func (r Random) Key(path string) uint64 {
	h := Mix(r.Seed ^ 0x9e3779b97f4a7c15)
	h = Mix(h ^ uint64(r.Epoch))
	for _, c := range []byte(path) {
		h = (h ^ uint64(c)) * 0x100000001b3
	}
	return Mix(h)
}

// Mix is the finaliser of SplitMix64 (Steele, Lea & Flood 2014).
func Mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

package rundir

import (
	"path/filepath"

	"weft/internal/atomicfile"
	"weft/internal/refusal"
	"weft/train"
	"weft/train/worker"
)

const (
	profileFile = "profile.json"
	maxProfile  = 64 << 20 // bytes that are read of profile.json, at most: those of a thousand workers
)

// Profile is what profile.json holds: where time and memory of an epoch went, and how much each worker sent
// to each other.
type Profile struct {
	Format int `json:"format"`
	worker.Profile
	// SentTo is how many bytes each worker sent to each other in the training pass of the last epoch: workers
	// × workers. The sum of a row is the worker's entry of Summary.SentBytes.
	SentTo [][]int64 `json:"sent_to"`
}

// profileOf is the profile of a result; nil: it has none.
func profileOf(r *train.Result) *Profile {
	if r.Profile == nil {
		return nil
	}
	return &Profile{runFormat, *r.Profile, r.SentTo}
}

func (d *Dir) writeProfile(p *Profile) error {
	if p == nil { // a run that was killed after its last epoch may have left a part of the file
		atomicfile.Sweep(d.root, profileFile)
		return nil
	}
	return d.writeJSON(profileFile, p)
}

// ReadProfile reads profile.json of a complete run; nil: it has none, as runs of earlier versions.
func ReadProfile(dir string) (*Profile, error) {
	const remedy = "restore it, or remove it: a report then leaves its part out"
	p := &Profile{}
	there, err := readJSON(dir, profileFile, maxProfile, p, remedy)
	if err != nil || !there {
		return nil, err
	}
	if err := p.check(); err != nil {
		return nil, refusal.Errorf("%s: %w; %s", filepath.Join(dir, profileFile), err, remedy)
	}
	return p, nil
}

// check refuses lists whose lengths do not fit each other.
func (p *Profile) check() error {
	n, layers, m := len(p.Workers), len(p.Layers), &p.Memory
	fits := n > 0 && len(p.SentTo) == n && len(m.Peaks) == n && len(m.Kinds) > 0 &&
		len(m.Bytes) == len(m.Kinds) && len(m.Layers) == len(m.Seconds) &&
		len(m.Parts) == len(m.Seconds) && m.Worker >= 0 && m.Worker < n
	for k := range n {
		if !fits {
			break
		}
		w := &p.Workers[k]
		fits = len(w.Forward) == layers && len(w.Backward) == layers && len(w.Communication) == layers &&
			len(w.Wait) == layers && len(p.SentTo[k]) == n && len(m.Peaks[k]) == len(m.Kinds)-1
	}
	for _, bytes := range m.Bytes {
		fits = fits && len(bytes) == len(m.Seconds)
	}
	for _, layer := range m.Layers {
		fits = fits && layer < layers
	}
	if !fits {
		return refusal.Damaged("damaged: its lists have different lengths")
	}
	return nil
}

package launch

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"

	"weft/comm"
	"weft/internal/refusal"
)

// Call is a call that all ranks make together.
type Call struct {
	Says  string  // names the call in errors
	Alike []Alike // what all ranks bring alike
	// Unlike says what is wrong with a rank that brings something else than rank 0, as in "has other values
	// than rank 0: …". In the error the names of what differs stand before it.
	Unlike string
}

// Alike is something that all ranks bring alike, as far as a checksum tells.
type Alike struct {
	Name string
	Sum  uint32
}

// mostNamed is how many of the things that differ an error names.
const mostNamed = 3

// sum is a checksum of all that a rank brings.
func (c *Call) sum() uint32 {
	var all []byte
	for _, a := range c.Alike {
		all = binary.LittleEndian.AppendUint32(append(all, a.Name...), a.Sum)
	}
	return crc32.ChecksumIEEE(all)
}

// begun is what a rank tells of its call.
type begun struct {
	sum   [4]byte
	name  string
	error []byte // packed
}

// text is how it travels.
func (b *begun) text() []byte {
	return append(append(append(b.sum[:], b.name...), 0), b.error...)
}

// begunOf reads a text.
func begunOf(text []byte) (b begun) {
	name, packed, _ := bytes.Cut(text[copy(b.sum[:], text):], []byte{0})
	b.name, b.error = string(name), packed
	return b
}

// Begin begins a call. err is why this rank refuses it. Begin fails on all ranks if any refuses its call,
// calls otherwise than rank 0, or brings something else: with one error, a Common, about the lowest such
// rank.
func (r Ranks) Begin(c *Call, err error) error {
	own := begun{name: c.Says, error: []byte(pack(err))}
	binary.LittleEndian.PutUint32(own.sum[:], c.sum())
	all, broken := comm.ToFirst(r.Comm, own.text())
	if broken != nil {
		return fmt.Errorf("%s: %w", c.Says, broken)
	}
	found, broken := r.verdict(unlike(all))
	if broken != nil {
		return fmt.Errorf("%s: %w", c.Says, broken)
	}
	if !found.Found {
		return nil
	}
	theirs, first := begunOf(found.Text), begunOf(found.First)
	switch {
	case len(theirs.error) > 0:
		return r.common(found.Rank, theirs.error, err)
	case theirs.name != first.name:
		return &Common{refusal.Errorf("rank %d calls %s, and rank 0 %s: the processes make the same calls in "+
			"the same order", found.Rank, theirs.name, first.name)}
	}
	names, broken := r.differing(c, found.Rank)
	if broken != nil {
		return broken
	}
	return &Common{refusal.Errorf("%s: rank %d %s", names, found.Rank, c.Unlike)}
}

// unlike finds the lowest rank that refuses its call, or else the lowest whose text is not rank 0's.
func unlike(texts [][]byte) (v verdict) {
	for rank, text := range texts {
		refuses := len(begunOf(text).error) > 0
		if refuses || !v.Found && !bytes.Equal(text, texts[0]) {
			v = verdict{true, rank, text, texts[0]}
		}
		if refuses {
			break
		}
	}
	return v
}

// differing names, on all ranks, what a rank brings otherwise than rank 0.
func (r Ranks) differing(c *Call, rank int) (names string, err error) {
	text, err := json.Marshal(c.Alike)
	if err != nil {
		return "", err
	}
	all, err := comm.ToFirst(r.Comm, text)
	if err != nil {
		return "", err
	}
	var list []string
	if r.First() {
		var theirs []Alike
		if err := json.Unmarshal(all[rank], &theirs); err != nil {
			return "", err
		}
		for k := range max(len(c.Alike), len(theirs)) {
			switch {
			case k >= len(c.Alike):
				list = append(list, theirs[k].Name)
			case k >= len(theirs) || theirs[k] != c.Alike[k]:
				list = append(list, c.Alike[k].Name)
			}
		}
	}
	told, err := comm.FromFirst(r.Comm, []byte(refusal.List(list, mostNamed)))
	return string(told), err
}

// Package names numbers vertices that are known by name, in the order in which the names appear. It also
// collects the edges of relations that are known by name. Readers of triples and of tables call it.
package names

import (
	"fmt"
	"math"
	"slices"

	"weft/internal/memory"
)

// Table has the names that appeared, and a number for each.
type Table struct {
	Names []string // by number

	numbers map[string]int32
	text    int64 // bytes of names for which there is memory
}

// NewTable returns a table without names.
func NewTable() *Table { return &Table{numbers: map[string]int32{}} }

// Number returns the number of a name: the next number if the name is new. It fails if there is no memory, or
// the number exceeds 32 bits.
func (t *Table) Number(name []byte) (v int32, err error) {
	if v, ok := t.numbers[string(name)]; ok {
		return v, nil
	}
	if len(t.Names) == math.MaxInt32 {
		return 0, fmt.Errorf("more than %d vertices", math.MaxInt32)
	}
	if err := t.need(len(name)); err != nil {
		return 0, err
	}
	v = int32(len(t.Names))
	s := string(name)
	t.numbers[s] = v
	t.Names, err = memory.Append(t.Names, s)
	return v, err
}

// Find returns the number of a name, if it has appeared.
func (t *Table) Find(name []byte) (v int32, appeared bool) {
	v, appeared = t.numbers[string(name)]
	return v, appeared
}

// Sorted are the names, ascending, and for each number the place of its name among these.
func (t *Table) Sorted() (ascending []string, at []int64) {
	ascending = slices.Sorted(slices.Values(t.Names))
	at = make([]int64, len(t.Names))
	for number, name := range t.Names {
		k, _ := slices.BinarySearch(ascending, name)
		at[number] = int64(k)
	}
	return ascending, at
}

// need asks for the memory that a name of so many bytes takes.
func (t *Table) need(bytes int) error {
	const entry, step = 64, 1 << 20 // of the map
	t.text -= entry + int64(bytes)
	if t.text >= 0 {
		return nil
	}
	t.text = step
	return memory.Need(step + entry + int64(bytes))
}

package commtest

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"testing"

	"weft/comm"
	"weft/internal/assert"
)

func TestInProcess(t *testing.T) { Run(t, comm.InProcess) }

func TestTurns(t *testing.T) {
	for workers := 1; workers <= 2; workers++ {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			RunTurns(t, workers, func() comm.Spool { return spool{} })
		})
	}
}

// spool keeps copies on Go's heap.
type spool struct{}

type kept []byte

func (spool) Put(_ comm.Kind, message []byte, _ comm.Path) (comm.Message, error) {
	return kept(bytes.Clone(message)), nil
}
func (spool) Takes(_ comm.Kind, bytes int) (int64, bool) { return int64(bytes), false }

func (m kept) Len() int               { return len(m) }
func (m kept) Ahead()                 {}
func (m kept) Take(into []byte) error { copy(into, m); return nil }
func (m kept) Drop()                  {}

// A sum that did not depend on its order would not test the order.
func TestTermsDependOnOrder(t *testing.T) {
	const n = 50
	for ranks := 3; ranks <= MaxRanks; ranks++ {
		backwards := make([]float64, n)
		for r := ranks - 1; r >= 0; r-- {
			for i, x := range terms(r, n) {
				backwards[i] += x
			}
		}
		if sameSum(backwards, ranks) == nil {
			t.Errorf("%d ranks: the same sums in the other order", ranks)
		}
	}
}

func TestRecord(t *testing.T) {
	var lines [2][]string
	var ranks sync.WaitGroup
	for r, transport := range comm.InProcess(2) {
		ranks.Go(func() {
			c := comm.New(Record(transport, func(e Event) { lines[r] = append(lines[r], e.String()) }), 0)
			assert.NoError(t, c.Group(1, 0).SumFloats(comm.Gradient, make([]float32, 3)))
		})
	}
	ranks.Wait()
	want := []string{
		"0 receives 4 bytes of gradient from 1", "0 sends 8 bytes of gradient to 1",
		"0 ended: receives 4 bytes of gradient from 1", "0 ended: sends 8 bytes of gradient to 1",
		"0 receives 8 bytes of gradient from 1", "0 sends 4 bytes of gradient to 1",
		"0 ended: receives 8 bytes of gradient from 1", "0 ended: sends 4 bytes of gradient to 1",
	}
	assert.Equal(t, want, lines[0])
	if !slices.Contains(lines[1], "1 sends 4 bytes of gradient to 0") {
		t.Error(lines[1])
	}
}

package cli

import (
	"testing"
	"time"

	"weft/comm"
	"weft/internal/assert"
	"weft/internal/launch"
	"weft/internal/require"
	"weft/tensor"
)

func TestShares(t *testing.T) {
	at := func(machine string, cores ...int) (p place) {
		p.Machine = machine
		for _, c := range cores {
			p.Cores.Set(c)
		}
		return p
	}
	for _, c := range []struct {
		a, b place
		want bool
	}{
		{at("a", 0, 1), at("a", 0, 1), true},
		{at("a", 0, 1), at("a", 1, 2), true},
		{at("a", 0, 1), at("a", 2, 3), false},
		{at("a", 63, 1023), at("a", 64, 1023), true},
		{at("a", 63), at("a", 64), false},
		{at("a", 0), at("b", 0), false},
	} {
		if c.a.shares(&c.b) != c.want || c.b.shares(&c.a) != c.want {
			t.Errorf("%v and %v: not %v", c.a, c.b, c.want)
		}
	}
	memory := tensor.NewCommon()
	defer memory.Close()
	if p := ownPlace(memory); !p.shares(&p) || p.Machine == "" {
		t.Errorf("own place %v", p)
	}
}

// Goroutines of one process share all its cores and its memory.
func TestNeighbours(t *testing.T) {
	ends := comm.InProcess(3)
	type answer struct {
		n   neighbours
		err error
	}
	answers := make(chan answer, len(ends))
	for _, end := range ends {
		go func() {
			n, err := Ranks{launch.Ranks{Comm: comm.New(end, time.Minute)}}.Neighbours()
			answers <- answer{n, err}
		}()
	}
	for range ends {
		a := <-answers
		require.NoError(t, a.err)
		assert.Equal(t, []int{3, 3, 3}, a.n.Sharers)
		assert.Equal(t, []int{0, 0, 0}, a.n.Machines)
	}
}

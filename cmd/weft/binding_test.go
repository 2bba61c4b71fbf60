package main

import (
	"testing"
	"time"

	"weft/comm"
	"weft/internal/launch"
)

func TestShares(t *testing.T) {
	at := func(machine int64, cores ...int) (p place) {
		p.machine[1] = machine
		for _, c := range cores {
			p.cores[c/64] |= 1 << (c % 64)
		}
		return p
	}
	for _, c := range []struct {
		a, b place
		want bool
	}{
		{at(1, 0, 1), at(1, 0, 1), true},
		{at(1, 0, 1), at(1, 1, 2), true},
		{at(1, 0, 1), at(1, 2, 3), false},
		{at(1, 63, 1023), at(1, 64, 1023), true},
		{at(1, 63), at(1, 64), false},
		{at(1, 0), at(2, 0), false},
	} {
		if c.a.shares(&c.b) != c.want || c.b.shares(&c.a) != c.want {
			t.Errorf("%v and %v: not %v", c.a, c.b, c.want)
		}
	}
	if p := ownPlace(); !p.shares(&p) || p.machine == (place{}).machine {
		t.Errorf("own place %v", p)
	}
}

// Goroutines of one process share all its cores.
func TestSharers(t *testing.T) {
	ends := comm.InProcess(3)
	type answer struct {
		n   int
		err error
	}
	answers := make(chan answer, len(ends))
	for _, end := range ends {
		go func() {
			n, err := ranks{launch.Ranks{Comm: comm.New(end, time.Minute)}}.sharers()
			answers <- answer{n, err}
		}()
	}
	for range ends {
		if a := <-answers; a.n != len(ends) || a.err != nil {
			t.Errorf("%d ranks, %v", a.n, a.err)
		}
	}
}

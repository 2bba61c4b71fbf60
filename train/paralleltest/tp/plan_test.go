package tp_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"weft/graph"
)

// plan says what a pass of a linear aggregation has to do.
type plan struct {
	pass   int
	rounds int
	chunks [][2]int // rows lo … hi−1 of each chunk, in the order of the pass
	needed []int    // by row: the first chunk that reads it
}

// planOf is the plan of a pass. Its chunks are those of worker 0's first round.
func planOf(t *testing.T, g *graph.Graph, pass int, scripts []*script, rounds int) *plan {
	t.Helper()
	n := g.Vertices()
	p := &plan{pass: pass, rounds: rounds, needed: make([]int, n)}
	at := pass * n
	for _, e := range scripts[0].events[pass] {
		if e.lane != computes || at == n*(1-pass) {
			continue
		}
		lo := at
		if at += e.rowCount; pass == 1 { // "backward goes over the chunks in reverse"
			at -= 2 * e.rowCount
			lo = at
		}
		p.chunks = append(p.chunks, [2]int{lo, lo + e.rowCount})
	}
	for row := range p.needed {
		p.needed[row] = p.chunkOf(row)
	}
	edges := g.Relations[0].Edges()
	for k, source := range edges.Source {
		read, made := int(source), int(edges.Target[k])
		if pass == 1 {
			read, made = made, read
		}
		p.needed[read] = min(p.needed[read], p.chunkOf(made))
	}
	return p
}

// chunkOf is the chunk that computes a row.
func (p *plan) chunkOf(row int) int {
	return slices.IndexFunc(p.chunks, func(c [2]int) bool { return c[0] <= row && row < c[1] })
}

// eventChunk is the chunk of a message, or −1 if its rows are of several chunks.
func (p *plan) eventChunk(e event) int {
	chunk := -1
	for i, row := range e.rows() {
		rowChunk := p.chunkOf(row)
		if e.lane == slicesSent || e.lane == slicesReceived {
			rowChunk = p.needed[row]
		}
		if i > 0 && rowChunk != chunk {
			return -1
		}
		chunk = rowChunk
	}
	return chunk
}

// progress returns how many calls have begun, and the chunk and sender of all results received.
func (p *plan) progress(events []event) (began int, returned map[[2]int]bool) {
	returned = map[[2]int]bool{}
	for _, e := range events {
		switch e.lane {
		case computes:
			began++
		case rowsReceived:
			returned[[2]int{p.eventChunk(e), e.peer}] = true
		}
	}
	return began, returned
}

// ownsOf reports whether a chunk computes any of the own rows.
func (p *plan) ownsOf(chunk int, own []int) bool {
	return slices.ContainsFunc(own, func(row int) bool { return p.chunkOf(row) == chunk })
}

// describe returns an event in words. before is how many calls precede it. p is nil where there are no
// chunks.
func (p *plan) describe(e event, before int) string {
	if e.lane == computes {
		if p == nil {
			return fmt.Sprintf("%s of %d rows", e.kernel, e.rowCount)
		}
		prefix, round := "", ""
		if p.rounds > 1 {
			round = fmt.Sprintf("round %d ", before/len(p.chunks))
		}
		c := p.chunks[before%len(p.chunks)]
		if len(p.chunks) > 1 {
			prefix = fmt.Sprintf("%schunk %d: ", round, before%len(p.chunks))
		}
		return fmt.Sprintf("%s%s of rows %d–%d", prefix, e.kernel, c[0], c[1]-1)
	}
	var parts []string
	for _, part := range e.parts {
		if part.rows == nil {
			parts = append(parts, fmt.Sprintf("%d numbers", part.count))
			continue
		}
		parts = append(parts, fmt.Sprintf("%s [%d–%d]", list(part.rows), part.from, part.to-1))
	}
	what := strings.Join(parts, " + ")
	if p != nil && len(p.chunks) > 1 {
		what = fmt.Sprintf("chunk %d: %s", p.eventChunk(e), what)
	}
	if e.lane == slicesSent || e.lane == rowsSent {
		return fmt.Sprintf("%s to %d", what, e.peer)
	}
	return fmt.Sprintf("%s from %d", what, e.peer)
}

func list(rows []int) string { return strings.Trim(fmt.Sprint(rows), "[]") }

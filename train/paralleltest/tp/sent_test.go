package tp_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/comm"
	"weft/comm/commtest"
	"weft/gnn"
	"weft/internal/assert"
	"weft/parallel/axis"
	"weft/parallel/exchange"
	"weft/parallel/tp"
	"weft/train/engine"
	"weft/train/paralleltest"
)

// TestSentBytes counts the bytes that a worker sends each other worker. Forward it sends the receiver's
// columns of its own rows, and its own columns of the receiver's rows. Backward it sends as much. Attention
// adds two scores for each vertex and each head of which the receiver has columns, and their gradients. All
// that takes four all-to-alls. Every worker reports each of them, and its bytes.
func TestSentBytes(t *testing.T) {
	g := paralleltest.Small(t, true, false)
	for _, c := range []struct {
		layer        paralleltest.Layer
		heads, width int
		scores       bool
	}{
		{paralleltest.Propagation("sum", 6, gnn.Sum, 1), 6, 1, false},
		{paralleltest.Propagation("three rounds", 6, gnn.Symmetric, 3), 6, 1, false},
		{paralleltest.Attention("attention", gnn.Attention{Heads: 2}, 3), 2, 3, true},
	} {
		for _, n := range []int{2, 3, 4, 7} {
			t.Run(fmt.Sprintf("%s, %d", c.layer.Name, n), func(t *testing.T) {
				type link struct {
					from, to int
					kind     comm.Kind
				}
				type redistributions struct{ number, bytes int }
				var mu sync.Mutex
				got, want, reported := map[link]int{}, map[link]int{}, make([]redistributions, n)
				rows := make([]int, n)
				wrap := func(end comm.Transport) comm.Transport {
					return commtest.Record(end, func(e commtest.Event) {
						if e.Send && !e.Ended && (e.Kind == comm.ToSlices || e.Kind == comm.ToRows) {
							mu.Lock()
							defer mu.Unlock()
							got[link{e.Rank, e.Peer, e.Kind}] += len(e.Data)
						}
					})
				}
				w := paralleltest.Workers{Mesh: paralleltest.Grid(1, 1, n), Graph: g, Wrap: wrap}
				w.Run(t, func(e engine.Config) {
					local := &reported[e.Groups.Slice]
					e.Redistributed = func(module string, bytes int64) {
						if module == c.layer.Name {
							*local = redistributions{local.number + 1, local.bytes + int(bytes)}
						}
					}
					a, err := tp.New(e.Env, axis.Options{})
					exchange.Must(err)
					c.layer.Run(e, a, paralleltest.Stored, c.layer.Blank(g.Vertices()))
					mu.Lock()
					defer mu.Unlock()
					rows[e.Groups.Slice] = a.Rows().Here
				})
				columns := c.heads * c.width
				numbers := func(worker int) int { // for each row, forward and backward
					from, to := columns*worker/n, columns*(worker+1)/n
					sum := 2 * (to - from)
					for h := range c.heads {
						if c.scores && from < (h+1)*c.width && h*c.width < to {
							sum += 2
						}
					}
					return sum
				}
				for from := range n {
					for to := range n {
						if bytes := 4 * rows[from] * numbers(to); from != to && bytes > 0 {
							want[link{from, to, comm.ToSlices}] = bytes
						}
						if bytes := 4 * rows[to] * numbers(from); from != to && bytes > 0 {
							want[link{from, to, comm.ToRows}] = bytes
						}
					}
				}
				assert.EqualBy(t, want, got, cmp.AllowUnexported(link{}))
				each := make([]redistributions, n)
				for from := range each {
					each[from].number = 4
				}
				for l, bytes := range want {
					each[l.from].bytes += bytes
				}
				assert.EqualBy(t, each, reported, cmp.AllowUnexported(redistributions{}))
			})
		}
	}
}

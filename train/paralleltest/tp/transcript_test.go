package tp_test

import (
	"flag"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"

	"weft/autograd"
	"weft/comm"
	"weft/gnn"
	"weft/graph"
	"weft/train/paralleltest"
)

var update = flag.Bool("update", false, "write the transcripts anew")

// figure9 is a graph with the sources of NeutronTP's Figure 9. Its four chunks have two destinations each,
// and aggregate {3 4}, {3 4 5 6}, {0 3 6 7} and {1 2 3 4}.
func figure9(t *testing.T) *graph.Graph {
	t.Helper()
	return paralleltest.GraphOf(t, 8, graph.Edges{
		Source: []int32{3, 4, 3, 4, 3, 5, 4, 6, 0, 3, 6, 7, 1, 3, 2, 4},
		Target: []int32{0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7},
	})
}

// path is a graph of edges from each vertex v to v−1 and to v+2. In either direction each chunk reads rows
// that no earlier chunk reads.
func path(t *testing.T) *graph.Graph {
	t.Helper()
	const vertices = 24
	var e graph.Edges
	for v := range int32(vertices - 2) {
		e.Source, e.Target = append(e.Source, v+1, v), append(e.Target, v, v+2)
	}
	return paralleltest.GraphOf(t, vertices, e)
}

// withSelf is a sum with self loops, in which no two rows of figure9 have the same neighbours.
var withSelf = gnn.Reduce{Kind: gnn.KindSum, Self: 1.25}

// overlapped lists the linear aggregations, in aggregation chunks.
var overlapped = map[string]struct {
	shows          string
	rounds, chunks int
}{
	"whole": {"tensor parallelism: to slices, aggregation of a slice along all edges, to rows", 1, 1},
	"chunks": {"Figure 9: each worker owns as many of a chunk's new sources, and sends them with it;\n" +
		"# a chunk's own rows are sent with it too, as each is its own neighbour here", 1, 4},
	"rounds": {"decoupled training: several rounds between two all-to-alls, to slices and to rows", 3, 3},
}

// TestTranscripts compares what each worker sends, receives and computes in a forward and a backward pass
// with testdata/transcripts, where a person can review it. Each lane has its own order. go test
// ./train/paralleltest/tp -run Transcripts -update writes the files anew. Each number of a matrix is
// unique, so that the numbers of a message tell its rows and columns. Results are compared with one worker's,
// so that no row is computed before it has come; TestOverlap looks at the order across lanes.
func TestTranscripts(t *testing.T) {
	g := figure9(t)
	type work struct {
		shows  string
		layer  paralleltest.Layer
		chunks int
	}
	all := map[string]work{
		"attention": {
			"graph attention: rows (columns 0–5) and the scores of two heads as sources (6–7) and as " +
				"targets (8–9)",
			paralleltest.Named("given scores"), 1,
		},
		"gatv2": {
			"GATv2: slices of whole heads, of sources (columns 0–3) and of targets (4–7)",
			twoEnds(2, 2), 1,
		},
	}
	for name, f := range overlapped {
		all[name] = work{f.shows, paralleltest.Propagation("", 6, withSelf, f.rounds), f.chunks}
	}
	for name, c := range all {
		for _, workers := range []int{2, 3} {
			t.Run(fmt.Sprintf("%s-%d", name, workers), func(t *testing.T) {
				scripts := transcribe(t, g, c.layer, workers, c.chunks)
				var out strings.Builder
				fmt.Fprintf(&out, "# %s\n# messages: rows [columns], joined with +; \"numbers\" have no "+
					"unique value: terms of a sum, or zero\n", c.shows)
				for rank, s := range scripts {
					text := paralleltest.NewTranscript()
					for pass, events := range s.events {
						text.Begin(phases[pass])
						var p *plan
						if f, ok := overlapped[name]; ok {
							p = planOf(t, g, pass, scripts, f.rounds)
						}
						calls := 0
						for _, e := range events {
							if e.lane == computes {
								calls++
							}
							text.Add(e.lane, p.describe(e, calls-1))
						}
						fmt.Fprintf(&out, "worker %d, %s, own rows %s\n%s", rank, phases[pass], list(s.own),
							text.Lanes(phases[pass], lanes...))
					}
				}
				paralleltest.CompareTranscript(t, fmt.Sprintf("%s-%d", name, workers), out.String(), *update)
			})
		}
	}
}

// twoEnds is GATv2 whose sources and targets are the two halves of the input's columns.
func twoEnds(heads, width int) paralleltest.Layer {
	n := heads * width
	l := paralleltest.Layer{In: 2 * n, Out: n, Weights: [][2]int{{1, n}}}
	l.Forward = func(p gnn.Propagator, x *autograd.Var, w []*autograd.Var) *autograd.Var {
		return p.Attend(gnn.Attention{
			Source: autograd.Columns(x, 0, n), Target: autograd.Columns(x, n, n), ASource: w[0], Heads: heads,
			Slope: .2, Loops: gnn.OneLoop,
		}, gnn.Once)
	}
	return l
}

// TestOverlap: "While a chunk is computed, the rows of later chunks are received, and the results of earlier
// ones are sent." While the rows of the last chunk are held back, all chunks before it are computed and their
// results received. While the first results are held back, all chunks are computed. The test needs no clock:
// it looks at a pass when no worker can go on.
func TestOverlap(t *testing.T) {
	const chunks = 3
	g, l := path(t), paralleltest.Propagation("", 6, withSelf, 1)
	for _, workers := range []int{2, 3} {
		free := transcribe(t, g, l, workers, chunks)
		for name, c := range map[string]struct {
			kind               comm.Kind
			heldChunk          int // the chunk whose messages are held back
			computed, returned int // chunks, while they are held back
		}{
			"the last chunk's rows":    {comm.ToSlices, chunks - 1, chunks - 1, chunks - 1},
			"the first chunk's rows":   {comm.ToSlices, 0, 0, 0},
			"the first results":        {comm.ToRows, 0, chunks, 0},
			"the second one's results": {comm.ToRows, 1, chunks, 1},
		} {
			t.Run(fmt.Sprintf("%s, %d", name, workers), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					release := []chan struct{}{make(chan struct{}), make(chan struct{})}
					var plans []*plan
					for pass := range phases {
						plans = append(plans, planOf(t, g, pass, free, 1))
					}
					blank, ended := make([]*script, workers), make(chan struct{})
					for rank := range blank {
						blank[rank] = newScript(t, g, l)
					}
					go func() {
						defer close(ended)
						run(t, g, l, chunks, blank, func(end comm.Transport) comm.Transport {
							s := blank[end.Rank()]
							return &holding{
								Transport: end, last: map[[2]int]*heldRequest{},
								until: func(kind comm.Kind, data []byte) <-chan struct{} {
									if pass := s.now(); kind == c.kind &&
										plans[pass].eventChunk(s.decode(laneOf(kind, true),
											data)) == c.heldChunk {
										return release[pass]
									}
									return nil
								},
							}
						})
					}()
					for pass, p := range plans {
						synctest.Wait()
						for rank, s := range blank {
							began, returned := p.progress(s.soFar(pass))
							if began != c.computed {
								t.Errorf("%s: worker %d computed %d chunks while messages were held "+
									"back, want %d", phases[pass], rank, began, c.computed)
							}
							want := map[[2]int]bool{}
							for j := range c.returned {
								for peer := range workers {
									if peer != rank && p.ownsOf(j, s.own) {
										want[[2]int{j, peer}] = true
									}
								}
							}
							if !maps.Equal(returned, want) {
								t.Errorf("%s: worker %d had received %v (chunk, worker) while messages "+
									"were held back, want %v", phases[pass], rank, returned, want)
							}
						}
						close(release[pass])
					}
					<-ended
				})
			})
		}
	}
}

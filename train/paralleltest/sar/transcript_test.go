package sar_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"weft/autograd"
	"weft/comm"
	"weft/comm/commtest"
	"weft/gnn"
	"weft/graph"
	"weft/kernel"
	"weft/nn"
	"weft/parallel/axis"
	"weft/parallel/edges"
	"weft/parallel/sar"
	"weft/tensor"
	"weft/train/engine"
	"weft/train/paralleltest"
)

var update = flag.Bool("update", false, "write the transcripts anew")

// TestTranscripts compares what each worker does in a forward and a backward pass, in order, with
// testdata/transcripts, where a person can review it. go test ./train/paralleltest/sar -run Transcripts
// -update writes the files anew. Each file begins with what it shows of SAR (Mostafa, MLSys 2022).
//
// "aggregate" is a kernel call on rows (×n: n calls). "ask" starts to receive rows, "receive" waits for them.
// "free" says that a buffer receives other rows, or that no buffer is held any more. Starting to receive
// fills a buffer with NaN, so the result shows that the right rows were aggregated: it is compared with the
// result of one worker.
func TestTranscripts(t *testing.T) {
	small := graph.Edges{ // of vertices 0 … 7, dealt to four workers in turn; 7 has no edges
		Source: []int32{1, 2, 3, 4, 5, 6, 0, 0, 4, 1, 1},
		Target: []int32{0, 0, 0, 1, 1, 2, 3, 5, 6, 4, 4},
	}
	type layer = paralleltest.Layer
	plain := func(l layer) func(func(string)) layer { return func(func(string)) layer { return l } }
	attention := paralleltest.Attention("", gnn.Attention{Heads: 1, Loops: gnn.OneLoop}, 2)
	for name, c := range map[string]struct {
		shows   string
		edges   graph.Edges
		n, k    int
		layer   func(log func(string)) layer
		setting axis.Options
	}{
		"case-1": {
			`"can backpropagate the gradients to remote machines without knowing the remote input features" (dmlc/dgl #5084)`,
			small, 8, 4, plain(paralleltest.Propagation("", 2, gnn.Sum, 1)),
			axis.Options{},
		},
		"case-2": {
			`"sequentially re-constructs then frees pieces of the ... computational graph during the backward pass" (abstract)`,
			small, 8, 4, func(log func(string)) layer {
				return paralleltest.Message("", 2, 2, nil, gnn.Message{},
					func(e gnn.Edges, _ []*nn.Param) *autograd.Var {
						log(fmt.Sprintf("compute messages of edges: %d", e.Source.Rows()))
						return autograd.Activate(e.Source, kernel.Tanh)
					})
			},
			axis.Options{},
		},
		"attention": {
			`"attention-matrix rematerialization" (abstract): only rows are fetched again, nothing for each edge`,
			small, 8, 4, plain(attention),
			axis.Options{},
		},
		"prefetch": {
			"(2 + pipeline depth)/N of a layer's rows (docs, sar_modes): one message more than the one " +
				"that is aggregated is in flight",
			small, 8, 4, plain(attention),
			axis.Options{Prefetch: 1},
		},
		"keep-halo": {
			"SAR off (docs, sar_modes): no refetch, and the whole halo is retained until the backward pass",
			small, 8, 4, plain(attention),
			axis.Options{KeepHalo: true},
		},
		"messages": {
			`"memory consumption per worker goes down linearly ..., even for densely connected graphs" (abstract)`,
			paralleltest.ManyEdges(t, 2600, 12).Relations[0].Edges(), 2600, 2,
			plain(paralleltest.Propagation("", 1, gnn.Sum, 1)),
			axis.Options{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := "# " + c.shows + "\n" + transcribe(t, paralleltest.GraphOf(t, c.n, c.edges),
				inTurn(c.n, c.k), c.k, c.layer, c.setting)
			paralleltest.CompareTranscript(t, name, got, *update)
		})
	}
}

// lanes are what a worker does concurrently; the events of a lane have a fixed order.
var lanes = []string{"send rows", "work", "receive gradients"}

// transcript records what a worker does.
type transcript struct {
	*paralleltest.Transcript
	buffers []buffer // that hold rows of others
}

// buffer is where rows of another worker are, or will be.
type buffer struct {
	at   *byte
	peer int
}

// aggregating are the kernels that aggregate rows or gradients.
var aggregating = []string{"spmm", "attend", "attend_back_source"}

// message records the start or the end of a message.
func (s *transcript) message(e commtest.Event) {
	if e.Kind != comm.Halo && e.Kind != comm.HaloGradient || len(e.Data) == 0 || e.Send && e.Ended {
		return
	}
	switch {
	case e.Send && e.Kind == comm.Halo:
		s.Add(lanes[0], fmt.Sprintf("%d:%d", e.Peer, len(e.Data)))
	case e.Send:
		s.Add(lanes[1], fmt.Sprintf("send gradient %d:%d", e.Peer, len(e.Data)))
	case e.Kind == comm.HaloGradient && e.Ended:
		s.Add(lanes[2], fmt.Sprintf("%d:%d", e.Peer, len(e.Data)))
	case e.Kind == comm.HaloGradient:
	case e.Ended:
		s.Add(lanes[1], fmt.Sprintf("receive %d", e.Peer))
	default:
		s.free(func(at *byte) bool { return at == &e.Data[0] })
		s.buffers = append(s.buffers, buffer{&e.Data[0], e.Peer})
		s.Add(lanes[1], fmt.Sprintf("ask %d:%d", e.Peer, len(e.Data)))
		for i := range e.Data {
			e.Data[i] = 0xff // NaN
		}
	}
}

// free records that some buffers no longer hold their rows. One goroutine of the worker both asks for rows
// and frees them.
func (s *transcript) free(which func(at *byte) bool) {
	s.buffers = slices.DeleteFunc(s.buffers, func(r buffer) bool {
		if which(r.at) {
			s.Add(lanes[1], fmt.Sprintf("free %d", r.peer))
			return true
		}
		return false
	})
}

// transcribe runs a layer forward and backward on all workers and returns their transcripts.
func transcribe(t *testing.T, g *graph.Graph, owners []int32, k int,
	l func(log func(string)) paralleltest.Layer, o axis.Options,
) string {
	scripts := make([]*transcript, k)
	for p := range scripts {
		scripts[p] = &transcript{Transcript: paralleltest.NewTranscript()}
	}
	still := l(func(string) {})
	want, got := still.Alone(t, g, paralleltest.Stored), still.Blank(g.Vertices())

	wrap := func(end comm.Transport) comm.Transport {
		return commtest.Record(end, scripts[end.Rank()].message)
	}
	workers(t, g, owners, k, o, wrap, func(c engine.Config, p *sar.Partition) {
		script := scripts[c.Groups.Partition]
		c.Team.Watch = func(call kernel.Call, run func()) {
			if slices.Contains(aggregating, call.Kernel) {
				script.Repeat(lanes[1], "aggregate")
			}
			run()
		}
		addBuffers := func() {
			n := c.Team.Memory.Live(tensor.Buffers) / int64(os.Getpagesize()) // each buffer takes a page
			if n == 0 {
				script.free(func(*byte) bool { return true })
			}
			script.Add("buffers held", fmt.Sprint(n))
		}
		layer := l(func(event string) { script.Add(lanes[1], event) })
		forward := layer.Forward
		layer.Forward = func(p gnn.Propagator, x *autograd.Var, w []*autograd.Var) *autograd.Var {
			out := forward(p, x, w)
			addBuffers()
			script.Begin(paralleltest.Backward)
			return out
		}
		layer.Run(c, p, paralleltest.Stored, got)
		addBuffers()
	})
	got.Near(t, "on several workers", want)

	var out strings.Builder
	for p, script := range scripts {
		for _, phase := range []string{paralleltest.Forward, paralleltest.Backward} {
			fmt.Fprintf(&out, "worker %d, %s\n%s", p, phase,
				script.Lanes(phase, append(slices.Clone(lanes), "buffers held")...))
		}
	}
	return out.String()
}

// TestBoundedMessages: "enforce back-pressure so that the peak is bounded in every path". However far a
// worker is ahead of the others, at most two messages are being sent and Prefetch + 1 received, for rows and
// for gradients, in case 1 and in case 2.
func TestBoundedMessages(t *testing.T) {
	g := paralleltest.ManyEdges(t, 4000, 10)
	owners := inTurn(4000, 5)
	for _, name := range []string{
		"linear sum", "linear mean", "symmetric twice", "maximum", "attention",
		"attention with loops and dropout",
		"attention 2 with dropout", "message maximum",
	} {
		l := paralleltest.Named(name)
		for _, prefetch := range []int{0, 1, 3} {
			var flights commtest.Flights
			workers(t, g, owners, 5, axis.Options{Prefetch: prefetch, Halo: edges.Halo(prefetch % 2)},
				func(end comm.Transport) comm.Transport { return commtest.Record(end, flights.Log) },
				func(c engine.Config, p *sar.Partition) {
					l.Run(c, p, paralleltest.Stored, l.Blank(g.Vertices()))
				})
			most := flights.Most()
			for rank := range 5 {
				for _, kind := range []comm.Kind{comm.Halo, comm.HaloGradient} {
					sent, received := most[commtest.Lane{Rank: rank, Send: true, Kind: kind}],
						most[commtest.Lane{Rank: rank, Kind: kind}]
					if sent > 2 || received > prefetch+1 || sent == 0 {
						t.Errorf("%s: worker %d had %d messages of %v in flight, and waited for %d with a "+
							"prefetch of %d", name, rank, sent, kind, received, prefetch)
					}
				}
			}
		}
	}
}

// TestEveryRowTravelsOnce: a halo exchange sends each halo row once, and nothing else. So the bytes are the
// number of exchanges times the halo rows.
func TestEveryRowTravelsOnce(t *testing.T) {
	g := paralleltest.ManyEdges(t, 1500, 3)
	owners := paralleltest.Dividings(1500, 3)["unevenly"]
	for name, c := range map[string]struct {
		l               paralleltest.Layer
		rows, gradients int64 // halo exchanges of rows and of gradients
		setting         axis.Options
	}{
		"case 1":       {paralleltest.Named("symmetric twice"), 2, 2, axis.Options{Prefetch: 1}},
		"maximum":      {paralleltest.Named("maximum"), 1, 1, axis.Options{}},
		"case 2":       {paralleltest.Named("attention"), 2, 1, axis.Options{Prefetch: 2}},
		"halo kept":    {paralleltest.Named("attention"), 1, 1, axis.Options{KeepHalo: true}},
		"message":      {paralleltest.Named("message sum"), 2, 1, axis.Options{Prefetch: 1}},
		"no gradients": {constantSource(), 1, 0, axis.Options{Prefetch: 1}},
		"none of rows": {constantSource([2]int{4, 4}), 2, 0, axis.Options{Prefetch: 1}},
	} {
		var rows, gradients, halo int64
		var mu sync.Mutex
		workers(t, g, owners, 3, c.setting, nil, func(w engine.Config, p *sar.Partition) {
			c.l.Run(w, p, paralleltest.Stored, c.l.Blank(g.Vertices()))
			mu.Lock()
			defer mu.Unlock()
			rows += w.Groups.Halo.Sent(comm.Halo).Bytes
			gradients += w.Groups.Halo.Sent(comm.HaloGradient).Bytes
			halo = 0
			for q := range 3 {
				halo += int64(w.Share.Whole.Statistics.Halo(q))
			}
		})
		if row := halo * int64(c.l.In) * 4; rows != c.rows*row || gradients != c.gradients*row {
			t.Errorf("%s: %d bytes of rows and %d of gradients, want %d and %d halo exchanges of %d", name,
				rows, gradients, c.rows, c.gradients, row)
		}
	}
}

// constantSource is a message function of a source that needs no gradient, with parameters that do.
func constantSource(weights ...[2]int) paralleltest.Layer {
	l := paralleltest.Message("", 4, 4, weights, gnn.Message{},
		func(e gnn.Edges, w []*nn.Param) *autograd.Var {
			if len(w) == 0 {
				return e.Source
			}
			return autograd.Linear(e.Source, w[0].On(e.Tape))
		})
	forward := l.Forward
	l.Forward = func(p gnn.Propagator, x *autograd.Var, w []*autograd.Var) *autograd.Var {
		return forward(p, autograd.Detach(x), w)
	}
	return l
}

// TestPeakWithoutHalo: "memory consumption per worker goes down linearly". Besides its local rows, a layer
// takes a few messages of another worker's rows, however large the halo is. With the halo kept it takes the
// whole halo.
func TestPeakWithoutHalo(t *testing.T) {
	const vertices, k, width = 12288, 4, 24
	g := paralleltest.ManyEdges(t, vertices, 40) // almost every row is in every halo
	owners := inTurn(vertices, k)
	for name, c := range map[string]struct {
		l     paralleltest.Layer
		whole float64 // local rows' tensors besides input and output
	}{
		"case 1": {paralleltest.Propagation("", width, gnn.Mean, 1), 0},
		"case 2": {paralleltest.Attention("", gnn.Attention{Heads: 1, Loops: gnn.OneLoop}, width), .5},
	} {
		var peaks [3]float64
		for i, o := range []axis.Options{
			{Prefetch: 1},
			{KeepHalo: true},
			{Prefetch: 1, Halo: edges.HaloCover},
		} {
			var mu sync.Mutex
			workers(t, g, owners, k, o, nil, func(w engine.Config, p *sar.Partition) {
				c.l.Run(w, p, paralleltest.Stored, c.l.Blank(vertices))
				mu.Lock()
				defer mu.Unlock()
				peaks[i] = max(peaks[i], float64(w.Team.Memory.Peak())/(vertices/k*width*4))
			})
		}
		// x, dx, z and its gradient are local rows. Two messages are being received and two sent, of rows and
		// of gradients. The scratch of segments takes a few more pages.
		messages := 2. + 2
		if name == "case 2" {
			messages += 2 + 2
		}
		bound := 4 + c.whole + messages/6 + .15
		// Partial sums: the gradients of up to a quarter of the rows
		for i, bound := range map[int]float64{0: bound, 2: bound + .25} {
			if peaks[i] > bound {
				t.Errorf("%s: a worker's peak is %.2f times its rows, want at most %.2f",
					name, peaks[i], bound)
			}
		}
		if peaks[1]-peaks[0] < k-1-messages/6 {
			t.Errorf("%s: the kept halo adds %.2f partitions' rows: was it not freed without?",
				name, peaks[1]-peaks[0])
		}
	}
}

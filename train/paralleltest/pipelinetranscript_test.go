package paralleltest

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weft/comm"
	"weft/comm/commtest"
	"weft/internal/trace"
	"weft/kernel"
	"weft/parallel/axis"
	"weft/parallel/mesh"
	"weft/train/engine"
)

var update = flag.Bool("update", false, "write the transcripts anew")

// TestPipelineTranscripts compares what each stage does in a training pass, slot by slot, with
// testdata/transcripts, where a person can review it. go test ./train/paralleltest -run Transcripts -update
// writes the files anew.
//
// A line is a slot: its number, its chunk and, in order, the messages that it waits for (sender:bytes), the
// layers at work, the aggregations (×n: n kernel calls), and the messages that it sends (receiver:bytes). A
// slot begins after the slots in which its messages were sent, and after the stage's previous one.
func TestPipelineTranscripts(t *testing.T) {
	for name, c := range map[string]struct {
		shows     string
		model     string
		mesh      mesh.Mesh
		chunks    int
		order     axis.ChunkOrder
		recompute bool
	}{
		"pipeline": {
			`"idle slots per stage = 2(S−1) of 2(K+S−1)": fill and drain, and the backward pass in the reverse order`,
			"gcn", Grid(3, 1, 1), 4, axis.Fixed, false,
		},
		"pipeline-replicas": {
			"rows that a replica reads of the other's chunk of the same number are sent before each aggregation",
			"gcn", Grid(2, 2, 1), 3, axis.Fixed, false,
		},
		"pipeline-recompute": {
			"a shuffled order; the input of GCNII travels with each state, and a chunk's forward pass is repeated",
			"gcnii", Grid(2, 1, 1), 3, axis.Shuffle, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStaged(t, c.model, c.mesh, c.chunks)
			s.epochs, s.recompute, s.options.ChunkOrder = 1, c.recompute, c.order
			CompareTranscript(t, name, "# "+c.shows+"\n"+transcribe(t, s), *update)
		})
	}
}

// stageScript records the training pass of a worker.
type stageScript struct {
	*Transcript
	all   *stageScripts
	rank  int
	done  bool     // the pass has ended
	came  []string // messages that the next slot has waited for
	ready int      // the last slot in which one of them was sent
	slot  int
	work  string // the chunk and the direction of the slot
	lane  string
	lanes map[string][]string // by phase, in order
}

// stageScripts are those of all workers, by rank.
type stageScripts struct {
	mu   sync.Mutex
	all  []*stageScript
	sent map[[2]int][]int // by sender and receiver: the slots of their messages between stages
}

// transcribe trains an epoch, and returns what each worker did in it.
func transcribe(t *testing.T, s *staged) string {
	t.Helper()
	scripts := &stageScripts{sent: map[[2]int][]int{}}
	for rank := range s.mesh.Workers() {
		scripts.all = append(scripts.all, &stageScript{
			Transcript: NewTranscript(), all: scripts, rank: rank, lanes: map[string][]string{},
		})
	}
	s.wrap = func(end comm.Transport) comm.Transport {
		return commtest.Record(end, scripts.all[end.Rank()].message)
	}
	s.watch = func(c *engine.Config) { scripts.all[c.Groups.World.Rank()].watch(c) }
	s.trained = func(c engine.Config) { scripts.all[c.Groups.World.Rank()].done = true }
	s.train(t)

	var out strings.Builder
	for rank, script := range scripts.all {
		at := s.mesh.Coords(rank)
		for _, phase := range []string{Forward, Backward} {
			fmt.Fprintf(&out, "worker %d, stage %d of partition %d, %s\n%s", rank, at.Stage, at.Partition, phase,
				script.Lanes(phase, script.lanes[phase]...))
		}
	}
	return out.String()
}

// watch records the chunks, the layers and the aggregations of a worker.
func (s *stageScript) watch(c *engine.Config) {
	recorder := trace.New(func() time.Duration { return 0 }, trace.Most, nil)
	recorder.Start(1)
	c.Trace = recorder.Work()
	c.OnLayer = func(layer int, part trace.Part) {
		if layer == trace.NoLayer || s.done {
			return
		}
		c.Trace.Begin(trace.Phase, "layer", trace.Args{}).End() // an event, which has the chunk
		events, _ := recorder.Events()
		s.begin(int(events[len(events)-1].Args.Chunk)-1, part)
		s.Repeat(s.lane, fmt.Sprintf("layer %d", layer))
	}
	c.Team.Watch = func(call kernel.Call, run func()) {
		if call.Kernel == "spmm" && !s.done {
			s.Repeat(s.lane, "aggregate")
		}
		run()
	}
}

// begin begins a slot, if the worker comes to another chunk or turns back.
func (s *stageScript) begin(chunk int, part trace.Part) {
	phase := Forward
	if part == trace.Backward {
		phase = Backward
	}
	work := fmt.Sprint(phase, chunk)
	if work == s.work {
		return
	}
	s.slot, s.work = max(s.slot, s.ready)+1, work
	s.lane = fmt.Sprintf("slot %2d, chunk %d", s.slot, chunk)
	s.Begin(phase)
	s.lanes[phase] = append(s.lanes[phase], s.lane)
	for _, message := range s.came {
		s.Add(s.lane, message)
	}
	s.came = nil
}

// message records a message between stages or replicas: that it is sent, or has come and was waited for.
func (s *stageScript) message(e commtest.Event) {
	between := e.Kind == comm.Stage || e.Kind == comm.Halo || e.Kind == comm.HaloGradient
	if !between || s.done || e.Send == e.Ended {
		return
	}
	verb := "receive"
	if e.Send {
		verb = "send"
	}
	event := fmt.Sprintf("%s %v %d:%d", verb, e.Kind, e.Peer, len(e.Data))
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	switch {
	case e.Kind != comm.Stage:
		s.Add(s.lane, event)
	case e.Send:
		s.Add(s.lane, event)
		way := [2]int{s.rank, e.Peer}
		s.all.sent[way] = append(s.all.sent[way], s.slot)
	default:
		way := [2]int{e.Peer, s.rank}
		s.ready = max(s.ready, s.all.sent[way][0])
		s.all.sent[way] = slices.Delete(s.all.sent[way], 0, 1)
		s.came = append(s.came, event)
	}
}

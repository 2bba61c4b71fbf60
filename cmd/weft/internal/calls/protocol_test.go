package calls

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/session"
	"weft/graph"
	"weft/graph/generate"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/train"
	"weft/train/setting"
	"weft/train/worker"
)

// ends are both ends of a socket.
func ends(t *testing.T) (ours, theirs *net.UnixConn) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	ours, err = socket(pair[0])
	require.NoError(t, err)
	theirs, err = socket(pair[1])
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = ours.Close(), theirs.Close() })
	return ours, theirs
}

// framed is a request behind its length.
func framed(text string) []byte {
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(text))), text...)
}

// TestReceive: a request comes in any pieces; one that is cut, too long or no JSON is an error, and an end
// between two requests is io.EOF.
func TestReceive(t *testing.T) {
	whole := framed(`{"id":3,"ask":"forward","drop":[[1,2]],"seeds":[18446744073709551615]}`)
	ours, theirs := ends(t)
	go func() {
		for _, b := range whole {
			_, _ = ours.Write([]byte{b})
		}
		_ = ours.Close()
	}()
	r, err := receive(theirs)
	require.NoError(t, err)
	assert.Equal(t, "forward", r.Ask)
	assert.Equal(t, [][2]int{{1, 2}}, r.Drop)
	var own forwardRequest
	require.NoError(t, json.Unmarshal(r.text, &own))
	assert.Equal(t, []uint64{1<<64 - 1}, own.Seeds)
	assert.Equal(t, -1, r.file)
	_, err = receive(theirs)
	assert.ErrorIs(t, err, io.EOF)
	for what, sent := range map[string][]byte{
		"cut in its length": whole[:2], "cut in its text": whole[:20],
		"too long": binary.LittleEndian.AppendUint32(nil, mostBytes+1), "no JSON": framed(`{"id":`),
	} {
		ours, theirs := ends(t)
		_, err := ours.Write(sent)
		require.NoError(t, err)
		require.NoError(t, ours.Close())
		_, err = receive(theirs)
		assert.Error(t, err, what)
		if errors.Is(err, io.EOF) {
			t.Errorf("%s: it is no end between two requests", what)
		}
	}
}

// TestMemory: memory has at most the bytes of its file, and no request reads beyond it.
func TestMemory(t *testing.T) {
	s := &server{memory: map[int][]byte{}}
	ask := func(file int, ask string, own any) error {
		text, err := json.Marshal(own)
		require.NoError(t, err)
		_, err = s.answer(t.Context(), &request{Ask: ask, file: file, text: text})
		return err
	}
	file := func() int {
		f, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC)
		require.NoError(t, err)
		require.NoError(t, unix.Ftruncate(f, int64(os.Getpagesize())))
		return f
	}
	page := int64(os.Getpagesize())
	onePage := mapRequest{Memory: 1, Bytes: page}
	assert.Refused(t, ask(-1, "map", onePage), "no file came")
	assert.Refused(t, ask(file(), "map", mapRequest{Memory: 1, Bytes: page + 1}), "its file is shorter")
	assert.Refused(t, ask(file(), "map", mapRequest{Memory: 1}), "memory 1 of 0 bytes")
	require.NoError(t, ask(file(), "map", onePage))
	assert.Refused(t, ask(file(), "map", onePage), "mapped already")
	numbers, err := s.numbers(1, int(page/4))
	require.NoError(t, err)
	assert.Len(t, numbers, int(page/4))
	for _, count := range []int{int(page/4) + 1, -1} {
		_, err = s.numbers(1, count)
		assert.Refused(t, err, "numbers are asked of it")
	}
	require.NoError(t, ask(-1, "unmap", unmapRequest{Memory: 1}))
	_, err = s.numbers(1, 1)
	assert.Refused(t, err, "memory 1 has 0 bytes")
	assert.Refused(t, ask(-1, "forward", modelRequest{Model: 4}), "there is no model 4")
	assert.Refused(t, ask(-1, "open", checkRequest{Version: Version + 1}), "of different versions")
	halo := checkRequest{Version: Version, Arguments: []string{"--halo=late", "g"}}
	assert.Refused(t, ask(-1, "check", halo), "--halo late: unknown halo; it is one of")
	halo.Arguments[0] = "--threads=1"
	require.NoError(t, ask(-1, "check", halo))
}

// TestDivide: a graph is opened and divided once for the models that have it in common, and closed when the
// last has left it.
func TestDivide(t *testing.T) {
	store := filepath.Join(t.TempDir(), "g")
	o := generate.Default(generate.Uniform)
	o.Vertices, o.Features = 40, 2
	g, err := generate.Graph(o)
	require.NoError(t, err)
	require.NoError(t, g.Write(store))
	var output bytes.Buffer
	s := &server{ranks: cli.Alone(), show: &output, divided: map[int]*divided{}}
	divide := func(number int) *divided {
		d, _, err := s.divide(t.Context(), &openRequest{Divided: number, checkRequest: checkRequest{
			Version: Version, Arguments: []string{"--parallel=graph=2", store},
		}})
		require.NoError(t, err)
		return d
	}
	first, other, again := divide(3), divide(4), divide(3)
	assert.Equal(t, 1, strings.Count(output.String(), "dividing it into 2 partitions"))
	if first != again || first.Session == other.Session || first.Job.Parts == nil {
		t.Error("the models of a net have no graph in common, or others have it too")
	}
	s.closed(first)
	assert.Equal(t, 2, len(s.divided), "graphs, of which one has another model")
	s.closed(again)
	s.closed(other)
	assert.Equal(t, 0, len(s.divided))
}

// TestTimeouts: a call waits for other processes as long as its own model says.
func TestTimeouts(t *testing.T) {
	s := &server{ranks: cli.Alone(), models: map[int]*model{}}
	for number, timeout := range []time.Duration{time.Minute, time.Hour} {
		job := train.Job{Options: setting.Options{CommTimeout: timeout}}
		s.models[number] = &model{opened: &divided{Session: &session.Session{Job: &job}}}
	}
	for number, timeout := range []time.Duration{time.Minute, time.Hour, time.Minute} {
		text := fmt.Appendf(nil, `{"model":%d}`, number%2)
		_, err := s.answer(t.Context(), &request{Ask: "none", text: text})
		assert.Refused(t, err, `"none" is no request`)
		assert.Equal(t, timeout, s.ranks.Comm.Timeout())
	}
}

// TestInputs: features are of a vertex type that there is, and what is given of edges of a relation; their
// memory has all rows.
func TestInputs(t *testing.T) {
	s := &server{memory: map[int][]byte{5: make([]byte, 4*12)}}
	types := []train.VertexType{{Vertices: 2, Features: 7}, {Vertices: 4, Features: 3}}
	relations := []graph.Relation{
		{Sources: make([]int32, 6), Frame: graph.Frame{Features: graph.Features{Columns: 2}}},
		{Sources: make([]int32, 4)},
	}
	m := &model{
		Passes: &train.Passes{Types: types},
		opened: &divided{
			Session: &session.Session{Job: &train.Job{Graph: &graph.Graph{Relations: relations}}},
		},
		// A relation has neither the columns of vertices nor those of another, and keeps its own beside
		// weights.
		lacking: []train.Lacking{
			{Kind: "edges", Type: 0, Weights: true},
			{Kind: "edges", Type: 1, Features: 3},
			{Kind: train.OfVertices, Type: 0, Features: 1},
			{Kind: train.OfVertices, Type: 1, Features: 2},
		},
	}
	inputs := func(in ...input) ([]worker.InputValues, []worker.EdgeValues, error) {
		return s.inputsOf(m).read(in)
	}
	features, _, err := inputs(input{Kind: "features", Type: 1, Memory: 5, Differentiable: true})
	require.NoError(t, err)
	assert.Len(t, features[0].Values, 0)
	assert.Len(t, features[1].Values, 12)
	assert.Equal(t, true, features[1].Differentiable)
	_, edges, err := inputs(input{Kind: "edges", Memory: 5}, input{Kind: "edge_features", Type: 1, Memory: 5},
		input{Kind: "edge_features", Memory: 5}, input{Kind: "edge_weight", Memory: 5, Differentiable: true})
	require.NoError(t, err)
	assert.Len(t, edges, 2)
	assert.Len(t, edges[0].Kept, 6)
	assert.Len(t, edges[0].Features.Values, 12)
	assert.Len(t, edges[0].Weights.Values, 6)
	assert.Equal(t, true, edges[0].Weights.Differentiable)
	assert.Len(t, edges[1].Features.Values, 12)
	for text, in := range map[string]input{
		"there is no vertex type 2":  {Kind: "features", Type: 2, Memory: 5},
		"there is no vertex type -1": {Kind: "features", Type: -1, Memory: 5},
		"there is no relation 2":     {Kind: "edges", Type: 2, Memory: 5},
		`there is no input "labels"`: {Kind: "labels", Memory: 5},
		"14 numbers are asked of it": {Kind: "features", Memory: 5},
		"6 numbers are asked of it":  {Kind: "edges", Memory: 6},
	} {
		_, _, err := inputs(in)
		assert.Refused(t, err, text)
	}
}

// TestBlocks: the blocks of a request are all columns of the outputs, in any order of these, of each sample.
func TestBlocks(t *testing.T) {
	s := &server{memory: map[int][]byte{5: make([]byte, 4*100)}}
	types := []train.VertexType{{Vertices: 2}, {Vertices: 4}}
	outputs := []train.Output{{Type: 0, Columns: 1}, {Type: 1, Columns: 3}}
	m := &model{Passes: &train.Passes{Types: types, Outputs: outputs, Groups: 2}}
	blocks := []block{{Type: 1, Columns: 2}, {Type: 0, Columns: 1}, {Type: 1, Columns: 1, Whole: true}}
	numbers, err := s.numbers(5, 100)
	require.NoError(t, err)
	numbers[8], numbers[10], numbers[11+8], numbers[11+10] = 7, 9, 5, 3
	both, err := s.blocks(m, &passRequest{Blocks: blocks, Output: 5})
	require.NoError(t, err)
	assert.Len(t, both, 2)
	made := both[1]
	assert.Equal(t, []worker.ColumnBlock{{Columns: 1, Values: []float32{5, 0}}}, made[0])
	assert.Equal(t, worker.ColumnBlock{Columns: 1, Whole: true, Values: []float32{3}}, made[1][1])
	made = both[0]
	assert.Equal(t, []worker.ColumnBlock{{Columns: 1, Values: []float32{7, 0}}}, made[0])
	assert.Equal(t, worker.ColumnBlock{Columns: 1, Whole: true, Values: []float32{9}}, made[1][1])
	assert.Len(t, made[1][0].Values, 8)
	m.all = []int{2, 7} // vertices of the second type are of several processes
	everywhere := []block{{Type: 1, Columns: 3, Everywhere: true}, blocks[1]}
	both, err = s.blocks(m, &passRequest{Blocks: everywhere, Output: 5})
	require.NoError(t, err)
	assert.Equal(t, []worker.ColumnBlock{{Columns: 3, Everywhere: true, Values: numbers[:21]}}, both[0][1])
	for text, wrong := range map[string][]block{
		"no 2 columns of an output of type 0":       {{Columns: 2}},
		"no -1 columns of an output of type 1":      {{Type: 1, Columns: -1}},
		"no 1 columns of an output of type 2":       {{Type: 2, Columns: 1}},
		"blocks of 0 columns of an output that has": blocks[1:2],
	} {
		_, err := s.blocks(m, &passRequest{Blocks: wrong, Output: 5})
		assert.Refused(t, err, text)
	}
	for _, listed := range []int{-1, 0, 3, math.MaxInt} {
		sub := []rows{{Type: 0, Memory: 5, Listed: listed}}
		_, err := s.blocks(m, &passRequest{Blocks: blocks, Output: 5, Rows: sub})
		assert.Refused(t, err, "are listed of vertex type 0")
	}
	for _, sub := range [][]rows{
		{{Type: 2, Listed: 1}}, {{Type: -1, Listed: 1}}, {{Listed: 1}, {Listed: 1}},
	} {
		_, err := s.blocks(m, &passRequest{Blocks: blocks, Output: 5, Rows: sub})
		assert.Refused(t, err, "are listed of vertex type")
	}
	sub := []rows{{Type: 1, Memory: 5, Listed: 1}}
	both, err = s.blocks(m, &passRequest{Blocks: blocks, Output: 5, Rows: sub})
	require.NoError(t, err)
	made = both[1]
	assert.Len(t, made[0][0].Values, 2)
	assert.Len(t, made[1][0].Values, 2)
}

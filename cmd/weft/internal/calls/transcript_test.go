package calls

import (
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"weft/cmd/weft/internal/cli"
	"weft/graph/generate"
	"weft/internal/require"
	"weft/train/paralleltest"
)

var update = flag.Bool("update", false, "write the transcript anew")

// sumOfNeighbours is a program: the sum of the rows of features times w at the sources of a vertex's edges.
const sumOfNeighbours = `{"version": 1, "class": "Sum",
	"parameters": [{"name": "w", "shape": [3, 2], "trained": true}],
	"operations": [{"op": "features", "shape": [2]}, {"op": "parameter", "name": "w"},
		{"op": "linear", "in": [0, 1]}, {"op": "gather", "in": [2], "end": "source"},
		{"op": "scatter", "in": [3], "reduce": "sum"}],
	"output": 4}`

// conversation are the requests of a session, without their ids: a model is opened, has a pass, which runs
// backward, and is closed. Its graph has 8 vertices. Some requests are refused.
var conversation = []string{
	`"ask":"check","version":13,"arguments":["--halo=late","g"]`,
	`"ask":"check","version":13,"arguments":["--program=sum.json","--threads=1","g"]`,
	`"ask":"open","model":1,"version":11,"arguments":["--program=sum.json","g"]`,
	`"ask":"open","model":1,"version":13,"arguments":["--program=sum.json","--threads=1","g"],"lacking":[]`,
	`"ask":"map","memory":2,"bytes":96`,
	`"ask":"map","memory":3,"bytes":96`,
	`"ask":"map","memory":4,"bytes":64`,
	`"ask":"forward","model":1,"pass":5,"values":2,"counts":[],"inputs":[],"output":3,` +
		`"blocks":[{"type":0,"columns":2}],"seeds":[0],"training":true,"recording":true`,
	`"ask":"forward","model":1,"pass":5,"values":2,"counts":[],` +
		`"inputs":[{"of":"features","type":0,"memory":4,"differentiable":true}],"output":3,` +
		`"blocks":[{"type":0,"columns":3}],"seeds":[0],"training":true,"recording":true`,
	`"ask":"backward","model":1,"pass":5,"values":2,` +
		`"inputs":[{"of":"features","type":0,"memory":4,"differentiable":true}],"output":3,` +
		`"blocks":[{"type":0,"columns":3}],"again":false`,
	`"ask":"vertices","model":1,"type":2,"vertices":4`,
	`"ask":"vertices","model":1,"type":0,"vertices":4`,
	`"ask":"sum","model":1,"call":"a sum","alike":[],"values":4,"listed":17,"of_group":false`,
	`"ask":"sum","model":1,"call":"a sum","alike":[],"values":4,"listed":8,"of_group":false`,
	`"ask":"none","model":1`,
	`"ask":"close","model":1`,
	`"ask":"map","memory":5,"bytes":32`,
	`"ask":"open","model":2,"version":13,"arguments":["--program=sum.json","--threads=1"]`,
	`"ask":"open","model":2,"version":13,"arguments":["--program=sum.json","--threads=1"],` +
		`"lacking":[{"of":"vertices","type":0,"features":2}],` +
		`"graph":{"types":[{"name":"","vertices":3}],"relations":[{"edges":4,"memory":5}]}`,
	`"ask":"open","model":3,"version":13,"arguments":[],"like":2,` +
		`"lacking":[{"of":"vertices","type":0,"features":2}],` +
		`"graph":{"types":[{"name":"","vertices":1}],"relations":[{"edges":2,"memory":5}]}`,
	`"ask":"open","model":3,"version":13,"arguments":[],"like":2,"lacking":[],` +
		`"graph":{"types":[{"name":"a","vertices":1}],"relations":[{"source":"a","name":"to","target":"b"}]}`,
	`"ask":"open","model":3,"version":13,"arguments":[],"like":1,"graph":{}`,
	`"ask":"open","model":3,"version":13,"arguments":[],"like":2`,
	`"ask":"open","model":3,"version":13,"arguments":[],"like":2,` +
		`"graph":{"types":[{"name":"","vertices":-1}],"relations":[]}`,
	`"ask":"open","model":3,"version":13,"arguments":["--program=sum.json","--threads=1","--parallel=graph=2"],` +
		`"graph":{"types":[{"name":"","vertices":3}],"relations":[{"edges":4,"memory":5}],"points":5}`,
	`"ask":"open","model":3,"version":13,"arguments":["--program=sum.json","--threads=1","--parallel=graph=2"],` +
		`"lacking":[{"of":"vertices","type":0,"features":2}],` +
		`"graph":{"types":[{"name":"","vertices":3}],"relations":[{"edges":4,"memory":5}],"parts":5}`,
	`"ask":"close","model":3`,
	`"ask":"close","model":2`,
	`"ask":"usage","model":1`,
	`"ask":"unmap","memory":4`,
}

// TestTranscript compares the conversation, a line for each request (>) and each answer (<), with
// testdata/transcripts, where a person can review it. go test ./cmd/weft/internal/calls -run Transcript
// -update writes the file anew.
func TestTranscript(t *testing.T) {
	folder, err := os.Getwd()
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("sum.json", []byte(sumOfNeighbours), 0o666))
	o := generate.Default(generate.Uniform)
	o.Vertices, o.Features, o.Classes = 8, 2, 2
	g, err := generate.Graph(o)
	require.NoError(t, err)
	require.NoError(t, g.Write("g"))
	ours, theirs := ends(t)
	s := &server{
		ranks: cli.Alone(), show: io.Discard,
		models: map[int]*model{}, memory: map[int][]byte{}, divided: map[int]*divided{},
		before: map[int]*assignment{},
	}
	var transcript strings.Builder
	for id, asked := range conversation {
		text := fmt.Sprintf(`{"id":%d,%s}`, id, asked)
		var file []byte
		if strings.HasPrefix(asked, `"ask":"map"`) {
			f, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC)
			require.NoError(t, err)
			require.NoError(t, unix.Ftruncate(f, int64(os.Getpagesize())))
			defer unix.Close(f)
			file = unix.UnixRights(f)
		}
		_, _, err := ours.WriteMsgUnix(framed(text), file, nil)
		require.NoError(t, err)
		r, err := receive(theirs)
		require.NoError(t, err)
		require.NoError(t, send(theirs, s.reply(t.Context(), &r)))
		head := make([]byte, 4)
		require.NoError(t, rest(ours, head))
		answered := make([]byte, binary.LittleEndian.Uint32(head))
		require.NoError(t, rest(ours, answered))
		fmt.Fprintf(&transcript, "> %s\n< %s\n", text, answered)
	}
	t.Chdir(folder)
	paralleltest.CompareTranscript(t, "session", transcript.String(), *update)
}

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"weft/internal/assert"
	"weft/internal/realdata"
	"weft/internal/require"
)

// snippet is a fenced block of a document.
type snippet struct {
	at   string // file and line
	lang string
	text string
}

// snippets are the fenced blocks of a document of this repository.
func snippets(t *testing.T, document string) (all []snippet) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", document))
	require.NoError(t, err)
	var open *snippet
	for k, line := range strings.Split(string(text), "\n") {
		switch lang, fence := strings.CutPrefix(line, "```"); {
		case fence && open == nil:
			open = &snippet{at: fmt.Sprintf("%s:%d", document, k+1), lang: lang}
		case fence:
			all, open = append(all, *open), nil
		case open != nil:
			open.text += line + "\n"
		}
	}
	return all
}

// console runs the snippets of documents one after the other, in one folder.
type console struct {
	t      *testing.T
	folder string
	python io.Writer
	answer *json.Decoder
}

// newSession makes a folder with weft as bin/weft and on the path, and starts a Python that has NumPy.
func newSession(t *testing.T) *console {
	t.Helper()
	interpreter := pythonWithNumPy()
	if interpreter == "" {
		t.Skip("there is no python3 with numpy (Debian: python3-numpy)")
	}
	s := &console{t: t, folder: t.TempDir()}
	weft, err := exec.LookPath("weft")
	require.NoError(t, err)
	configs, err := filepath.Abs(filepath.Join("..", "..", "configs"))
	require.NoError(t, err)
	for _, dir := range []string{"bin", "stores", "runs"} {
		require.NoError(t, os.Mkdir(filepath.Join(s.folder, dir), 0o777))
	}
	s.link(weft, "bin/weft")
	s.link(configs, "configs")
	script, err := filepath.Abs(filepath.Join("testdata", "python", "session.py"))
	require.NoError(t, err)
	python := exec.Command(interpreter, "-B", script)
	python.Dir, python.Stderr = s.folder, os.Stderr
	in, err := python.StdinPipe()
	require.NoError(t, err)
	out, err := python.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, python.Start())
	t.Cleanup(func() {
		assert.NoError(t, in.Close())
		assert.NoError(t, python.Wait())
	})
	s.python, s.answer = in, json.NewDecoder(bufio.NewReader(out))
	return s
}

// pythonWithNumPy is the first on the path, else Debian's; "" where neither has NumPy.
func pythonWithNumPy() string {
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(python, "-c", "import numpy").Run() == nil {
			return python
		}
	}
	return ""
}

func (s *console) link(to, name string) {
	s.t.Helper()
	if err := os.Symlink(to, filepath.Join(s.folder, name)); err != nil {
		s.t.Fatal(err)
	}
}

// run runs Python and returns what it printed. ran is false where a module is not installed, which is logged.
func (s *console) run(b snippet) (output string, ran bool) {
	s.t.Helper()
	text, err := json.Marshal(b.text)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := fmt.Fprintf(s.python, "%s\n", text); err != nil {
		s.t.Fatal(err)
	}
	var answer struct{ Missing, Error, Said string }
	if err := s.answer.Decode(&answer); err != nil {
		s.t.Fatal(err)
	}
	if answer.Missing != "" {
		s.t.Logf("%s: not run: there is no Python module %s", b.at, answer.Missing)
		return "", false
	}
	if answer.Error != "" {
		s.t.Fatalf("%s: %s", b.at, answer.Error)
	}
	return answer.Said, true
}

// document runs a snippet of Python of a document, and looks at what those print that compare weft with
// something else.
func (s *console) document(b snippet) {
	s.t.Helper()
	output, ran := s.run(b)
	if !ran || output == "" {
		return
	}
	var a, c float64
	if strings.Contains(b.text, `["summary"]["test"]`) {
		if _, err := fmt.Sscan(output, &a, &c); err != nil || math.Abs(a-c) > 1e-6 {
			s.t.Errorf("%s: printed %q, want the same accuracy twice (%v)", b.at, output, err)
		}
		return
	}
	if _, err := fmt.Sscan(output, &a); err != nil || !(a < 1e-4) {
		s.t.Errorf("%s: printed %q, want a small difference (%v)", b.at, output, err)
	}
}

// shell runs a command line, which must succeed, and returns what it printed.
func (s *console) shell(at, line string) string {
	s.t.Helper()
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir = s.folder
	var stderr strings.Builder
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("%s: %s: %v: %s", at, line, err, stderr.String())
	}
	return string(output)
}

// elsewhere matches the command lines that this test leaves to others: those that install, or depend on the
// computer and on the day's package index.
var elsewhere = regexp.MustCompile(`^(make|go run|mpirun)\b|weft (doctor|(train|import) debian)\b`)

// unmade matches the files that no snippet makes; a snippet of Python that reads one is left out.
var unmade = regexp.MustCompile(`"((graph|x)\.pt|pickled.npz)"`)

// measurement is a time or a share in what a command prints.
var measurement = regexp.MustCompile(`\b[0-9.,]+ (m?s\b|%)`)

// trains is a training of a graph.
var trains = regexp.MustCompile(`\bweft train \S+`)

// commands runs the command lines of a snippet and compares what they print, but for times and spaces, with
// what stands below them.
func (s *console) commands(b snippet) {
	s.t.Helper()
	words := func(text string) string {
		return strings.Join(strings.Fields(measurement.ReplaceAllString(text, "MEASURED")), " ")
	}
	lines := strings.Split(strings.ReplaceAll(strings.TrimRight(b.text, "\n"), "\\\n", ""), "\n")
	for len(lines) > 0 {
		command, shown := strings.CutPrefix(lines[0], "$ ")
		lines = lines[1:]
		var below []string
		for shown && len(lines) > 0 && !strings.HasPrefix(lines[0], "$ ") {
			below, lines = append(below, lines[0]), lines[1:]
		}
		want := strings.Join(below, "\n")
		name, isFile := strings.CutPrefix(command, "cat ")
		switch {
		case elsewhere.MatchString(command) || !shown && !strings.HasPrefix(command, "bin/weft "):
		case shown && isFile:
			if err := os.WriteFile(filepath.Join(s.folder, name), []byte(want+"\n"), 0o666); err != nil {
				s.t.Fatal(err)
			}
		default:
			if !shown && !strings.Contains(command, "--epochs") { // that it trains is enough
				command = trains.ReplaceAllString(command, "$0 --epochs 2")
			}
			if output := s.shell(b.at, command); shown && words(output) != words(want) {
				s.t.Errorf("%s: %s printed\n%swhere the document has\n%s", b.at, command, output, want)
			}
		}
	}
}

// graphs makes data, of so many splits, and the files that the snippets write of it.
func (s *console) graphs(splits int) {
	s.t.Helper()
	s.run(snippet{at: "graphs.py", text: fmt.Sprintf("import graphs\ndata = graphs.make(%d)", splits)})
}

// pickled converts pickled archives as the document says, and imports them.
func (s *console) pickled() {
	s.t.Helper()
	const name = `"pickled.npz"`
	for _, b := range snippets(s.t, "docs/formats.md") {
		if !strings.Contains(b.text, name) {
			continue
		}
		for file, want := range map[string]string{
			"cora_ml.npz": "300 vertices, 1,500 edges, 8 features, 3 classes",
			"cora.npz":    "300 vertices, 1,491 edges, 8 features (sparse), 3 classes",
			"actor.npz":   "300 vertices, 1,491 edges, 8 features, 3 classes",
		} {
			s.run(snippet{at: b.at, text: strings.ReplaceAll(b.text, name, strconv.Quote(file))})
			if output := s.shell(file, "weft import npz converted.npz "+file+
				".weft"); !strings.Contains(output, want) {
				s.t.Errorf("%s: %q, want %q", file, output, want)
			}
		}
	}
}

// writes reports whether the snippet writes a graph of PyTorch Geometric.
func (b *snippet) writes() bool {
	return b.lang == "python" &&
		(strings.Contains(b.text, "data.edge_index") || strings.Contains(b.text, "data[k]"))
}

// Each snippet of these documents works as it stands, in the order in which they stand there.
func TestSnippets(t *testing.T) {
	data, err := filepath.Abs(realdata.Folder(t))
	require.NoError(t, err)
	s := newSession(t)
	s.link(data, "data")
	for name, file := range map[string]string{
		"library.pt": "hetero.pt", "theirs.pt": "dict.pt",
		"graph.pt": "data.pt",
	} {
		path, err := filepath.Abs(filepath.Join("..", "..", "graph", "pyg", "testdata", file))
		require.NoError(t, err)
		s.link(path, name)
	}
	tables, err := txtar.ParseFile(filepath.Join("testdata", "script", "tables.txtar"))
	require.NoError(t, err)
	for _, f := range tables.Files { // payments.csv, customers.csv
		require.NoError(t, os.WriteFile(filepath.Join(s.folder, f.Name), f.Data, 0o666))
	}
	s.graphs(0)
	s.run(snippet{at: "graphs.py", text: "graphs.files(data)"})
	for _, b := range snippets(t, "docs/tables.md") { // what one writes, one before it imports
		if b.writes() {
			s.run(b)
		}
	}
	s.pickled()
	const weights, model = "weights.safetensors", "model: gcn\nhidden: 16\nnormalize-features: row\n"
	s.shell("weights", "weft import planetoid data/planetoid/ind.cora cora && "+
		"weft train cora --config configs/cora-gcn.yaml --epochs 1 --out first && cp first/model.safetensors "+weights)
	require.NoError(t, os.WriteFile(filepath.Join(s.folder, "model.yaml"), []byte(model), 0o666))
	for _, document := range []string{
		"README.md", "docs/performance.md", "docs/tables.md", "docs/formats.md", "docs/store.md",
		"docs/new-rows.md", "docs/results.md", "docs/weights.md", "docs/run-files.md", "docs/program.md",
		"docs/tutorials/four-machines.md",
	} {
		s.shell(document, "rm -rf stores/* runs/*") // each makes its own
		for _, b := range snippets(t, document) {
			switch b.lang {
			case "python":
				// The README's run in python/tests/test_docs.py.
				if document != "README.md" && !unmade.MatchString(b.text) {
					s.document(b)
					s.graphs(0) // also where the snippet calls another graph data
				}
			case "":
				s.commands(b)
			}
		}
	}
}

// TestMachinesOfDocument: plans for machines that need not be here are those of docs/gpu.md, and its file of a
// machine is read.
func TestMachinesOfDocument(t *testing.T) {
	s := &console{t: t, folder: t.TempDir()}
	plans, files := 0, 0
	for _, b := range snippets(t, "docs/gpu.md") {
		switch {
		case b.lang == "yaml":
			require.NoError(t, os.WriteFile(filepath.Join(s.folder, "mine.yaml"), []byte(b.text), 0o666))
			output := s.shell(b.at, "weft plan --machine mine.yaml --vertices 1M --edges 9M --features 8 --classes 3")
			assert.Contains(t, output, "mine: 24 GB, copies of 900 GB/s in it", b.at)
			files++
		case strings.HasPrefix(b.text, "$ "):
			s.commands(b)
			plans++
		}
	}
	assert.Equal(t, []int{1, 1}, []int{plans, files}, "blocks of plans and of files")
}

// What the snippets write of a graph with ten splits is imported with all of them, and the results of a run
// on one of them are read as the document says.
func TestSnippetsWithSplits(t *testing.T) {
	s := newSession(t)
	s.graphs(10)
	const arrays = " --features x.npy --labels y.npy --train train.npy --val val.npy --test test.npy"
	for _, b := range snippets(t, "docs/tables.md") {
		if !b.writes() {
			continue
		}
		if _, ran := s.run(b); !ran {
			continue
		}
		file := regexp.MustCompile(`"(mine\.\w+)"`).FindStringSubmatch(b.text)[1]
		format, options := "edges", arrays
		if filepath.Ext(file) == ".npz" {
			format, options = "npz", ""
		}
		output := s.shell(b.at, "rm -rf stores/cora && weft import "+format+" "+file+" stores/cora"+options)
		assert.Contains(t, output, "300 vertices, 1,500 edges, 8 features, 3 classes, 10 splits, the "+
			"first 180/60/60", "%s: imported", b.at)
	}
	s.shell("train", "weft train stores/cora --split 7 --epochs 30 --out runs/cora")
	read := 0
	for _, b := range snippets(t, "docs/results.md") {
		if strings.Contains(b.text, `["summary"]["test"]`) {
			s.document(b)
			read++
		}
	}
	assert.Equal(t, 1, read, "snippets read results")
}

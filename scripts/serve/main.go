// Command serve loads a `weft serve` of its own, and says how fast and how truly it answers. It drives the
// built command:
//
//	go run ./scripts/serve --data FOLDER [--weft bin/weft]
//
// The graph is Map of GitHub of that folder, or a generated one where it is not there, with random features
// and classes. The model is a GraphSAGE of two layers. Graph and run are kept in a temporary folder until the
// end. The loads are
//
//	one vertex    1,000 requests by 16 clients, each for a vertex with fewer than 100 edges
//	mixed         10,000 requests by 64 clients for random vertices, or for new ones that are like these
//	malformed     500 bodies that are no requests
//	ending        requests by 16 clients, until the server has ended by SIGTERM
//
// Answers are compared with those of `weft predict`: a new vertex with the features and in-neighbours of
// another has its prediction. The exit status is 1 where an answer differs or is lost; times decide nothing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"weft/graph"
	"weft/graph/generate"
	"weft/graph/npz"
	"weft/internal/npy"
)

func main() {
	data := flag.String("data", "", "folder of the public graphs")
	weft := flag.String("weft", "bin/weft", "the command to drive")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	folder, err := os.MkdirTemp("", "weft-serve-")
	if err == nil {
		err = errors.Join(run(ctx, *weft, *data, folder), os.RemoveAll(folder))
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "serve: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, weft, data, folder string) error {
	e := &experiment{
		weft: weft, store: filepath.Join(folder, "graph"), run: filepath.Join(folder, "run"),
	}
	if err := makeStore(data, e.store); err != nil {
		return err
	}
	logits, hidden := filepath.Join(folder, "preds.npy"), filepath.Join(folder, "hidden.npy")
	for _, args := range [][]string{
		{"train", e.store, "--model", "sage", "--layers", "2", "--epochs", "5", "--out", e.run},
		{"predict", e.run, "--out", logits, "--embeddings", hidden},
	} {
		if err := e.command(ctx, args...); err != nil {
			return err
		}
	}
	var err error
	if e.graph, err = graph.Open(e.store); err != nil {
		return err
	}
	defer e.graph.Close()
	if e.logits, err = read(logits); err != nil {
		return err
	}
	if e.hidden, err = read(hidden); err != nil {
		return err
	}
	return e.loads(ctx)
}

// read reads a matrix.
func read(path string) (r rows, err error) {
	a, err := npy.Map(path) // until the program ends
	if err != nil {
		return r, err
	}
	r.columns = a.Shape[1]
	r.values, err = a.Float32s()
	return r, err
}

// command runs weft to its end. It shows what weft says only if weft fails.
func (e *experiment) command(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, e.weft, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("weft %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// makeStore writes the graph.
func makeStore(data, store string) error {
	const features, classes = 64, 8
	from, err := npz.Open(filepath.Join(data, "map_of_github", "edges.npz"), npz.Options{})
	if errors.Is(err, os.ErrNotExist) {
		o := generate.Default(generate.RMAT)
		o.Features, o.Classes = features, classes
		fmt.Println("Map of GitHub is not there: a generated graph takes its place")
		return generate.Write(store, o)
	}
	if err != nil {
		return err
	}
	defer from.Close()
	from.Symmetrize = true
	g, err := from.Read()
	if err == nil {
		g, err = g.RandomFeatures(features, 1)
	}
	if err != nil {
		return err
	}
	g.Types[0].Labels.Classes = classes
	for v := range g.Types[0].Count {
		g.Types[0].Labels.Class = append(g.Types[0].Labels.Class, int64(v%classes))
	}
	if err := g.MakeSplits("random:60/20/20", 1, 1); err != nil {
		return err
	}
	return g.Write(store)
}

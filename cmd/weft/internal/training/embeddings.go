package training

import (
	"fmt"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/inference"
	"weft/cmd/weft/internal/session"
	"weft/internal/refusal"
	"weft/train"
	"weft/train/predictions"
	"weft/train/rundir"
	"weft/train/setting"
)

// checkEmbeddings refuses, before any work, a file for the embeddings that could not be written, is read, or
// is one of the run's. init is that of the weights to start from.
func (t *trainCommand) checkEmbeddings(init string) error {
	if t.embeddings == "" {
		return nil
	}
	if err := cli.CheckOutput("embeddings", t.embeddings, t.settings.Config, init); err != nil {
		return err
	}
	if err := predictions.CheckEnding("embeddings", t.embeddings); err != nil {
		return err
	}
	for _, path := range rundir.Paths(t.out) {
		if t.out != "" && cli.SameFile(t.embeddings, path) {
			return refusal.Errorf("--embeddings %s: a file of the run; name another", t.embeddings)
		}
	}
	if t.trace != "" && cli.SameFile(t.embeddings, t.trace) {
		return refusal.Errorf("--embeddings %s: the file of --trace; name another", t.embeddings)
	}
	return nil
}

// checkEmbeddingsApart refuses a file for the embeddings that the graph is read from.
func (t *trainCommand) checkEmbeddingsApart(dataset, store string) error {
	if t.embeddings == "" {
		return nil
	}
	return cli.CheckApartFromGraph("embeddings", t.embeddings, dataset, store)
}

// takeEmbeddings has the job's embeddings written, and returns what says whether they are. As the results of
// the run do not depend on them, an error waits until these are there.
func (t *trainCommand) takeEmbeddings(s *session.Session, job *train.Job, o *setting.Resolved) (func() error,
	error) {
	if t.embeddings == "" {
		return func() error { return nil }, nil
	}
	var of predictions.Table
	err := s.OnFirst(func() error {
		g, err := s.Graph()
		if err == nil {
			of, err = inference.EmbeddingsOf(o, g, true)
		}
		return err
	})
	var written error
	job.OnEmbeddings = func(rows train.Rows) error {
		if written = predictions.Write(t.embeddings, rows, of); written != nil {
			for range rows.Each { // take the rest
			}
		}
		return nil
	}
	return func() error {
		if written != nil {
			return fmt.Errorf("%w; the results are in %s, and weft predict %[2]s --embeddings FILE "+
				"writes them",
				written, t.out)
		}
		return nil
	}, err
}

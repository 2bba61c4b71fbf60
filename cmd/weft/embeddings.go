package main

import (
	"fmt"

	"weft/internal/refusal"
	"weft/train"
	"weft/train/predictions"
	"weft/train/rundir"
	"weft/train/setting"
)

// embeddingsUsage is the help of --embeddings.
const embeddingsUsage = "`file` for the last hidden layer: .npy (float32, vertices × columns), .csv " +
	"or .parquet"

// checkEmbeddings refuses, before any work, a file for the embeddings that could not be written, is read, or
// is one of the run's. init is that of the weights to start from.
func (t *trainCommand) checkEmbeddings(init string) error {
	if t.embeddings == "" {
		return nil
	}
	if err := checkOutput("embeddings", t.embeddings, t.settings.config, init); err != nil {
		return err
	}
	if err := predictions.CheckEnding("embeddings", t.embeddings); err != nil {
		return err
	}
	for _, path := range rundir.Paths(t.out) {
		if t.out != "" && sameFile(t.embeddings, path) {
			return refusal.Errorf("--embeddings %s: a file of the run; name another", t.embeddings)
		}
	}
	if t.trace != "" && sameFile(t.embeddings, t.trace) {
		return refusal.Errorf("--embeddings %s: the file of --trace; name another", t.embeddings)
	}
	return nil
}

// checkEmbeddingsApart refuses a file for the embeddings that the graph is read from.
func (t *trainCommand) checkEmbeddingsApart(dataset, store string) error {
	if t.embeddings == "" {
		return nil
	}
	return checkApartFromGraph("embeddings", t.embeddings, dataset, store)
}

// takeEmbeddings has the job's embeddings written, and returns what says whether they are. As the results of
// the run do not depend on them, an error waits until these are there.
func (t *trainCommand) takeEmbeddings(s *session, job *train.Job, o *setting.Resolved) (func() error, error) {
	if t.embeddings == "" {
		return func() error { return nil }, nil
	}
	var of predictions.Table
	err := s.OnFirst(func() error {
		g, err := s.graph()
		if err == nil {
			of, err = embeddingsOf(o, g, true)
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

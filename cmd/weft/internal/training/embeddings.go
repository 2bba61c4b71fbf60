package training

import (
	"fmt"

	"weft/cmd/weft/internal/inference"
	"weft/cmd/weft/internal/session"
	"weft/train"
	"weft/train/predictions"
	"weft/train/setting"
)

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

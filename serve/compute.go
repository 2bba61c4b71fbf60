package serve

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"slices"

	"weft/graph"
	"weft/train"
)

// compute answers questions until the queue is closed and empty.
func (s *Server) compute() {
	for batch := s.queue.take(); batch != nil; batch = s.queue.take() {
		s.answer(batch)
	}
}

// answer answers questions by one inference. If that fails, each question gets an inference of its own, so
// that one question cannot fail another.
func (s *Server) answer(batch []*question) {
	for k, a := range s.infer(batch) {
		q := batch[k]
		if a.err != nil && len(batch) > 1 {
			a = s.infer(batch[k : k+1])[0]
		}
		q.answered <- s.finish(q, a)
	}
}

// finish encodes an answer. An inference's answers are encoded one at a time.
func (s *Server) finish(q *question, a answer) (finished answer) {
	defer func() {
		if fault := recover(); fault != nil {
			finished.err = fmt.Errorf("an answer failed: %v", fault)
			s.options.Log.Printf("%v\n%s", finished.err, debug.Stack())
		}
	}()
	if finished = a; a.err == nil && q.respond != nil {
		finished.text, finished.err = q.respond(a)
	}
	return finished
}

// infer computes the answers to questions with the same addition and outputs.
func (s *Server) infer(batch []*question) (answers []answer) {
	outputs, all := batch[0].outputs, train.Query{Appended: batch[0].Appended}
	for _, q := range batch {
		all.Vertices, all.Numbers = append(all.Vertices, q.Vertices...), append(all.Numbers, q.Numbers...)
		if e := q.Edges; e != nil {
			all.Edges = cmp.Or(all.Edges, &graph.Edges{})
			all.Edges.Source = append(all.Edges.Source, e.Source...)
			all.Edges.Target = append(all.Edges.Target, e.Target...)
			all.Edges.Features = append(all.Edges.Features, e.Features...)
		}
	}
	slices.Sort(all.Vertices)
	all.Vertices = slices.Compact(all.Vertices) // one may be asked for more than once
	p, err := s.predicted(func() (*train.Prediction, error) {
		return s.model.Predictor.Predict(s.working, all, outputs)
	})
	s.metrics.computed.Add(all.Rows())
	edge := 0
	for _, q := range batch {
		a := answer{err: err}
		for k := range q.Rows() {
			if err != nil {
				break
			}
			at := edge
			if q.Edges == nil {
				at, _ = slices.BinarySearch(all.Vertices, q.Vertices[k])
			}
			edge++
			a.results = append(a.results, p.Logits[at*p.Classes:(at+1)*p.Classes])
			if n := p.EmbeddingColumns; outputs == train.WithEmbeddings {
				a.embeddings = append(a.embeddings, p.Embeddings[at*n:(at+1)*n])
			}
		}
		answers = append(answers, a)
	}
	return answers
}

// predicted runs an inference. It returns an error if the store has changed before the inference ended, or if
// the inference panics, as changed files may make it.
func (s *Server) predicted(infer func() (*train.Prediction, error)) (p *train.Prediction, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("an inference failed: %v", fault)
			if s.changed() == nil {
				s.options.Log.Printf("%v\n%s", err, debug.Stack())
			}
		}
		if changed := s.changed(); changed != nil {
			p, err = nil, changed
		}
	}()
	return infer()
}

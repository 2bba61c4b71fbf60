package serve

import (
	"fmt"
	"runtime/debug"
	"slices"

	"weft/train"
)

// compute answers questions until the queue is closed and empty.
func (s *Server) compute() {
	for batch := s.queue.take(); batch != nil; batch = s.queue.take() {
		s.answer(batch)
	}
}

// answer answers questions by one inference. If it fails, each question has one of its own: what fails one
// fails no other.
func (s *Server) answer(batch []*question) {
	var all []int32
	for _, q := range batch {
		all = append(all, q.vertices...)
	}
	of := s.infer(all, batch[0])
	for _, q := range batch {
		a := of(q)
		if a.err != nil && len(batch) > 1 {
			a = s.infer(q.vertices, q)(q)
		}
		q.answered <- s.finish(q, a)
	}
}

// finish encodes an answer. Each inference has one at a time.
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

// infer computes vertices, of which some may be listed more than once, with the addition and the outputs of a
// question. It returns what finds the answer to a question for some of them.
func (s *Server) infer(vertices []int32, like *question) func(*question) answer {
	list := slices.Clone(vertices)
	slices.Sort(list)
	list = slices.Compact(list)
	p, err := s.predicted(list, like)
	s.metrics.computed.Add(len(list))
	return func(q *question) (a answer) {
		if a.err = err; err != nil {
			return a
		}
		for _, v := range q.vertices {
			at, _ := slices.BinarySearch(list, v)
			a.results = append(a.results, p.Logits[at*p.Classes:(at+1)*p.Classes])
			if n := p.EmbeddingColumns; like.outputs == train.WithEmbeddings {
				a.embeddings = append(a.embeddings, p.Embeddings[at*n:(at+1)*n])
			}
		}
		return a
	}
}

// predicted is an inference. What has been read of a store that has changed until it ends, and a panic that
// may come of that, are errors.
func (s *Server) predicted(list []int32, like *question) (p *train.Prediction, err error) {
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
	return s.model.Predictor.Predict(s.working, list, like.added, like.outputs)
}

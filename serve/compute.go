package serve

import (
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
	if s.learned != nil {
		return s.inferEdges(batch)
	}
	var list []int32 // a vertex may be asked for more than once
	for _, q := range batch {
		list = append(list, q.vertices...)
	}
	slices.Sort(list)
	list = slices.Compact(list)
	like := batch[0]
	p, err := s.predicted(func() (*train.Prediction, error) {
		return s.model.Predictor.Predict(s.working, list, like.added, like.outputs)
	})
	s.metrics.computed.Add(len(list))
	for _, q := range batch {
		a := answer{err: err}
		for _, v := range q.vertices {
			if err != nil {
				break
			}
			at, _ := slices.BinarySearch(list, v)
			a.results = append(a.results, p.Logits[at*p.Classes:(at+1)*p.Classes])
			if n := p.EmbeddingColumns; like.outputs == train.WithEmbeddings {
				a.embeddings = append(a.embeddings, p.Embeddings[at*n:(at+1)*n])
			}
		}
		answers = append(answers, a)
	}
	return answers
}

// inferEdges is infer of edges.
func (s *Server) inferEdges(batch []*question) (answers []answer) {
	var all graph.Edges
	var numbers []int64
	for _, q := range batch {
		all.Source, all.Target = append(all.Source, q.edges.Source...), append(all.Target, q.edges.Target...)
		all.Features, numbers = append(all.Features, q.edges.Features...), append(numbers, q.numbers...)
	}
	p, err := s.predicted(func() (*train.Prediction, error) {
		return s.model.Predictor.PredictEdges(s.working, &all, numbers, batch[0].added)
	})
	s.metrics.computed.Add(all.Len())
	at := 0
	for _, q := range batch {
		a := answer{err: err}
		if err == nil {
			end := at + q.edges.Len()*p.Classes
			a.results = slices.Collect(slices.Chunk(p.Logits[at:end], p.Classes))
			at = end
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

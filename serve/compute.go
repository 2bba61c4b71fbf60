package serve

import (
	"context"
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
	batch = slices.DeleteFunc(batch, func(q *question) bool { return q.context.Err() != nil })
	switch len(batch) {
	case 0:
		return
	case 1:
		q := batch[0]
		q.answered <- s.infer(q.context, q.vertices, q)(q)
		return
	}
	var all []int32
	for _, q := range batch {
		all = append(all, q.vertices...)
	}
	of := s.infer(context.Background(), all, batch[0])
	for _, q := range batch {
		a := of(q)
		if a.err != nil {
			a = s.infer(q.context, q.vertices, q)(q)
		}
		q.answered <- a
	}
}

// infer computes vertices, of which some may be listed more than once, with the addition and the outputs of a
// question. It returns what finds the answer to a question for some of them.
func (s *Server) infer(ctx context.Context, vertices []int32, like *question) func(*question) answer {
	list := slices.Clone(vertices)
	slices.Sort(list)
	list = slices.Compact(list)
	p, err := s.model.Predictor.Predict(ctx, list, like.added, like.outputs)
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

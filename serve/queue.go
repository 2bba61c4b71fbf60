package serve

import (
	"sync"

	"weft/graph/appended"
	"weft/train"
)

// question asks for the predictions of some vertices.
type question struct {
	vertices []int32
	added    *appended.Graph // with new vertices; nil: the graph alone
	outputs  train.Outputs
	answered chan answer // takes one
}

// answer has a row for each vertex of a question, in its order.
type answer struct {
	results, embeddings [][]float32
	err                 error
}

// mostTogether is how many vertices questions may have that share an inference.
const mostTogether = 64

// queue is the questions that wait.
type queue struct {
	mu      sync.Mutex
	more    *sync.Cond
	waiting []*question
	closed  bool
}

func newQueue() *queue {
	q := &queue{}
	q.more = sync.NewCond(&q.mu)
	return q
}

// put adds a question.
func (q *queue) put(one *question) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, one)
	q.more.Signal()
}

// take waits for a question, and takes it with those behind it that can share its inference: they ask for the
// same outputs of the graph alone. It returns nil when the queue is closed and empty.
func (q *queue) take() (batch []*question) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.waiting) == 0 && !q.closed {
		q.more.Wait()
	}
	if len(q.waiting) == 0 {
		return nil
	}
	first, n, vertices := q.waiting[0], 1, len(q.waiting[0].vertices)
	for _, next := range q.waiting[1:] {
		if vertices += len(next.vertices); next.outputs != first.outputs || vertices > mostTogether ||
			next.added != nil || first.added != nil {
			break
		}
		n++
	}
	batch = append(batch, q.waiting[:n]...)
	clear(q.waiting[:n]) // the memory of what has been answered is free
	q.waiting = q.waiting[n:]
	return batch
}

// length is how many questions wait.
func (q *queue) length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

// close has take return nil once no question waits.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.more.Broadcast()
}

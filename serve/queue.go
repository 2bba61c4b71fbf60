package serve

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"weft/train"
)

// question asks for the predictions of some vertices, or of edges.
type question struct {
	train.Query
	outputs  train.Outputs
	answered chan answer // holds one answer
	// respond encodes the answer, which takes time; nil: nobody reads the answer.
	respond func(answer) ([]byte, error)
}

// size is the number of the question's vertices or edges and of the edges that it adds.
func (q *question) size() int {
	n := q.Rows()
	if q.Appended != nil {
		for i := range q.Appended.Added.Edges {
			n += q.Appended.Added.Edges[i].Len()
		}
	}
	return n
}

// answer has a row for each vertex or edge of a question, in its order.
type answer struct {
	results, embeddings [][]float32
	text                []byte // the response
	err                 error
}

// mostTogether bounds the vertices or edges of questions that share an inference.
const mostTogether = 64

// queue holds the questions that wait. Inferences take the oldest question and the smallest in turn: none
// waits for ever, and a small one does not wait for many large ones.
type queue struct {
	mu       sync.Mutex
	more     *sync.Cond
	most     int // questions that may wait
	waiting  []*question
	smallest bool // the smallest question has the next turn
	closed   bool
}

func newQueue(most int) *queue {
	q := &queue{most: most}
	q.more = sync.NewCond(&q.mu)
	return q
}

// put adds a question. If too many wait, it refuses the largest, and the newest if several are as large.
func (q *queue) put(entry *question) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		entry.answered <- answer{err: errEnds}
		return
	}
	q.waiting = append(q.waiting, entry)
	if len(q.waiting) > q.most {
		largest := 0
		for i, other := range q.waiting {
			if other.size() >= q.waiting[largest].size() {
				largest = i
			}
		}
		q.waiting[largest].answered <- answer{err: badRequest{fmt.Errorf("%d requests wait, and no more may; "+
			"ask again in a second", q.most), http.StatusServiceUnavailable}}
		q.waiting = slices.Delete(q.waiting, largest, largest+1)
	}
	q.more.Signal()
}

// take waits for a question, and takes it with others that can share its inference: they ask for the same
// outputs on the graph alone. It returns nil when the queue is closed and empty.
func (q *queue) take() (batch []*question) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.waiting) == 0 && !q.closed {
		q.more.Wait()
	}
	if len(q.waiting) == 0 {
		return nil
	}
	first := q.waiting[0]
	if q.smallest {
		first = slices.MinFunc(q.waiting, func(a, b *question) int { return cmp.Compare(a.size(), b.size()) })
	}
	q.smallest = !q.smallest
	size := first.size()
	q.waiting = slices.DeleteFunc(q.waiting, func(entry *question) bool {
		takes := entry == first
		if !takes && entry.outputs == first.outputs && entry.Appended == nil && first.Appended == nil &&
			size+entry.size() <= mostTogether {
			takes = true
			size += entry.size()
		}
		if takes {
			batch = append(batch, entry)
		}
		return takes
	})
	return batch
}

// drop ends a waiting question whose client has left. A question that is being computed gets its answer.
func (q *queue) drop(entry *question) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if at := slices.Index(q.waiting, entry); at >= 0 {
		q.waiting = slices.Delete(q.waiting, at, at+1)
		entry.answered <- answer{err: errLeft}
	}
}

// length returns how many questions wait.
func (q *queue) length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

// close makes take return nil once no question waits.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.more.Broadcast()
}

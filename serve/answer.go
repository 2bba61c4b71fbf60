package serve

import (
	"encoding/json"

	"weft/train/predictions"
)

// response is the body of an answer.
type response struct {
	Predictions []*prediction `json:"predictions"`
	// Unknown counts, by column, the new vertices with a category that the model does not know. Such a
	// category counts as other: all features of the column are 0.
	Unknown map[string]int `json:"unknown,omitempty"`
}

// rowID is what an answer calls a row: the id of a vertex, or the ids of an edge's ends after the number that
// the edge has in the store.
type rowID []named

type named struct {
	key   string
	value any
}

// Keys of rowIDs. Ends have keys of their own.
const (
	vertexKey = "vertex"
	edgeKey   = "edge"
)

// prediction is the prediction of a vertex or an edge.
type prediction struct {
	row rowID
	outputs
}

// MarshalJSON writes one object of both.
func (p *prediction) MarshalJSON() ([]byte, error) {
	text := []byte{'{'}
	for _, n := range p.row {
		key, err := json.Marshal(n.key)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(n.value)
		if err != nil {
			return nil, err
		}
		text = append(append(append(append(text, key...), ':'), value...), ',')
	}
	rest, err := json.Marshal(&p.outputs)
	if err != nil {
		return nil, err
	}
	return append(text, rest[1:]...), nil
}

// outputs are the asked outputs. Numbers are float32s: JSON has as many digits as they need to be read back
// to the same bits.
type outputs struct {
	Class         any        `json:"class,omitempty"` // name or number; of labels a list
	Probability   *float32   `json:"probability,omitempty"`
	Margin        *float32   `json:"margin,omitempty"`
	Entropy       *float32   `json:"entropy,omitempty"`
	Probabilities *perClass  `json:"probabilities,omitempty"`
	Value         *[]float32 `json:"value,omitempty"`
	Embedding     *[]float32 `json:"embedding,omitempty"`
}

// perClass has a number for each class, under the class's name.
type perClass struct {
	names   []string // nil: classes have numbers
	numbers []float64
}

// MarshalJSON writes an object, in the order of the classes.
func (c *perClass) MarshalJSON() ([]byte, error) {
	text := []byte{'{'}
	for k, x := range c.numbers {
		key, err := json.Marshal(predictions.NameOf(c.names, k))
		if err != nil {
			return nil, err
		}
		number, err := json.Marshal(float32(x))
		if err != nil {
			return nil, err
		}
		if k > 0 {
			text = append(text, ',')
		}
		text = append(append(append(text, key...), ':'), number...)
	}
	return append(text, '}'), nil
}

// word returns the name of a class, or its number as an int.
func word(names []string, class int) any {
	if names == nil {
		return class
	}
	return names[class]
}

// An answer takes this memory for each vertex or edge, and for each number with the name of its class.
const (
	answerBytes = 512
	valueBytes  = 48
)

// respond returns the body of the response, whose memory it counts, unless the client is gone.
func (s *Server) respond(asked *asked, a answer, h *holding, gone <-chan struct{}) ([]byte, error) {
	table := &s.model.Table
	r := response{Unknown: asked.unknown}
	names := 0 // bytes of the names of classes, as JSON
	for _, name := range table.Classes {
		names += 2 * len(name)
	}
	for i, row := range a.results {
		select {
		case <-gone:
			return nil, errLeft
		default:
		}
		p := &prediction{row: asked.rows[i]}
		bytes := answerBytes
		var outcome predictions.Outcome
		table.Read(&outcome, row)
		number := func(what predictions.Answer) *float32 {
			x := outcome.Number(what)
			return &x
		}
		for _, what := range asked.columns {
			switch what {
			case predictions.Class:
				p.Class = word(table.Classes, outcome.Top)
				if table.Columns == predictions.LabelLogits {
					all := []any{}
					for _, k := range table.Said(&outcome) {
						all = append(all, word(table.Classes, k))
					}
					p.Class = all
					bytes += names + valueBytes*len(row)
				}
			case predictions.Probability:
				p.Probability = number(what)
			case predictions.Margin:
				p.Margin = number(what)
			case predictions.Entropy:
				p.Entropy = number(what)
			case predictions.AllProbabilities:
				p.Probabilities = &perClass{table.Classes, outcome.Probabilities}
				bytes += names + valueBytes*len(row)
			case predictions.Value:
				p.Value = &row
				bytes += valueBytes * len(row)
			case predictions.Hidden:
				p.Embedding = &row
				if a.embeddings != nil {
					p.Embedding = &a.embeddings[i]
				}
				bytes += valueBytes * len(*p.Embedding)
			}
		}
		if err := h.take(bytes); err != nil {
			return nil, err
		}
		r.Predictions = append(r.Predictions, p)
	}
	s.metrics.unknown(asked.unknown)
	return json.Marshal(&r)
}

package serve

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"weft/train/predictions"
)

// response is the body of an answer.
type response struct {
	Predictions []prediction `json:"predictions"`
}

// prediction is that of a vertex: the columns that were asked for. Its numbers are float32s, which JSON has
// with as many digits as they need to be read back to the same bits.
type prediction struct {
	Vertex        any        `json:"vertex"`          // its id
	Class         any        `json:"class,omitempty"` // its name, or its number
	Probability   *float32   `json:"probability,omitempty"`
	Probabilities *perClass  `json:"probabilities,omitempty"`
	Values        *[]float32 `json:"values,omitempty"`
	Embedding     *[]float32 `json:"embedding,omitempty"`
}

// perClass has a number for each class, under the class's name.
type perClass struct {
	names   []string // nil: classes have numbers
	numbers []float32
}

// MarshalJSON writes an object, in the order of the classes.
func (c *perClass) MarshalJSON() ([]byte, error) {
	text := []byte{'{'}
	for k, x := range c.numbers {
		key, err := json.Marshal(name(c.names, k))
		if err != nil {
			return nil, err
		}
		number, err := json.Marshal(x)
		if err != nil {
			return nil, err
		}
		if k > 0 {
			text = append(text, ',')
		}
		text = slices.Concat(text, key, []byte{':'}, number)
	}
	return append(text, '}'), nil
}

// name is that of a class, or its number.
func name(names []string, class int) string {
	if names == nil {
		return strconv.Itoa(class)
	}
	return names[class]
}

// respond is the response to what was asked.
func (s *Server) respond(asked *asked, a answer) (r response) {
	table := &s.model.Table
	for i, v := range asked.vertices {
		one := prediction{Vertex: s.ids.of(v)}
		row := a.results[i]
		for _, column := range asked.columns {
			switch column {
			case valuesColumn:
				one.Values = &row
			case embeddingColumn:
				if one.Embedding = &row; a.embeddings != nil {
					one.Embedding = &a.embeddings[i]
				}
			case probabilitiesColumn:
				one.Probabilities = &perClass{table.Classes, probabilities(table.Columns, row)}
			case probabilityColumn:
				p := slices.Max(probabilities(table.Columns, row))
				one.Probability = &p
			case classColumn:
				one.Class = top(row)
				if table.Classes != nil {
					one.Class = table.Classes[top(row)]
				}
			}
		}
		r.Predictions = append(r.Predictions, one)
	}
	return r
}

// top is the likeliest class of a row of logits, the first of several.
func top(row []float32) (class int) {
	for k, z := range row {
		if z > row[class] {
			class = k
		}
	}
	return class
}

// probabilities are those of a row of logits: of classes their softmax, of labels σ.
func probabilities(columns predictions.Columns, row []float32) []float32 {
	p := make([]float32, len(row))
	if columns == predictions.LabelLogits {
		for k, z := range row {
			p[k] = float32(1 / (1 + math.Exp(-float64(z))))
		}
		return p
	}
	all, highest := 0., float64(row[top(row)])
	for _, z := range row {
		all += math.Exp(float64(z) - highest)
	}
	for k, z := range row {
		p[k] = float32(math.Exp(float64(z)-highest) / all)
	}
	return p
}

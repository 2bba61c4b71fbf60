package axis

import (
	"weft/internal/suggest"
	"weft/kernel"
	"weft/tensor"
)

// Wire is the number format of messages in training.
type Wire uint8

// AsStored sends values as they are stored. The integers round stochastically within the range of each row.
const (
	AsStored Wire = iota
	Float32
	BFloat16
	Int8
	Int4
)

// Wires are the names of the formats.
var Wires = []string{AsStored: "auto", Float32: "f32", BFloat16: "bf16", Int8: "int8", Int4: "int4"}

// Format is the format of messages with values that are stored in an element type.
func (w Wire) Format(stored tensor.Element) kernel.Format {
	switch {
	case w == Int8:
		return kernel.InInt8
	case w == Int4:
		return kernel.InInt4
	case w == BFloat16 && stored == tensor.Float32:
		return kernel.InBFloat16
	}
	return kernel.AsStored
}

func (w Wire) String() string { return Wires[w] }

// UnmarshalText implements encoding.TextUnmarshaler.
func (w *Wire) UnmarshalText(text []byte) error { return suggest.Parse(w, text, Wires) }

// HistoryStart says what the history of a pipeline contains in the first epochs.
type HistoryStart uint8

// Zeros, or with Warm the embeddings of an exact forward pass.
const (
	Zeros HistoryStart = iota
	Warm
)

// HistoryStarts are the names of the choices.
var HistoryStarts = []string{Zeros: "zeros", Warm: "warm"}

func (s HistoryStart) String() string { return HistoryStarts[s] }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *HistoryStart) UnmarshalText(text []byte) error { return suggest.Parse(s, text, HistoryStarts) }

// ChunkOrder is the order in which the chunks of a pipeline come.
type ChunkOrder uint8

// Shuffle draws a new order for each epoch. Fixed is the same in all epochs.
const (
	Shuffle ChunkOrder = iota
	Fixed
)

// ChunkOrders are the names of the choices.
var ChunkOrders = []string{Shuffle: "shuffle", Fixed: "fixed"}

func (c ChunkOrder) String() string { return ChunkOrders[c] }

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *ChunkOrder) UnmarshalText(text []byte) error { return suggest.Parse(c, text, ChunkOrders) }

package pump

import (
	"errors"
	"testing"

	"weft/internal/assert"
	"weft/internal/require"
)

// Buffers are emptied in the order in which they were put, and are there again.
func TestSink(t *testing.T) {
	var got []int
	s := NewSink(func(b []int) error {
		got = append(got, b...)
		return nil
	})
	for k := range 100 {
		b, err := s.Take()
		require.NoError(t, err)
		s.Put(append(b[:0], k, -k))
	}
	require.NoError(t, s.Close())
	require.Equal(t, 200, len(got))
	for k := range 100 {
		assert.Equal(t, []int{k, -k}, got[2*k:2*k+2])
	}
}

// Behind an error nothing is emptied; the writer learns of it, at Close at the latest.
func TestSinkFails(t *testing.T) {
	full, emptied := errors.New("the disk is full"), 0
	s := NewSink(func(k int) error {
		emptied++
		if k == 2 {
			return full
		}
		return nil
	})
	var told error
	for k := range 1000 {
		if _, told = s.Take(); told != nil {
			break
		}
		s.Put(k)
	}
	assert.ErrorIs(t, told, full)
	assert.ErrorIs(t, s.Close(), full)
	assert.Equal(t, 3, emptied)
}

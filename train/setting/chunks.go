package setting

import (
	"errors"
	"strconv"
	"strings"
)

// Chunks is a number of chunks. Its text form is the number, or "auto" for 0.
type Chunks int

// maxChunks is more than any graph needs.
const maxChunks = 1 << 16

// parseChunks reads "8" or "auto".
func parseChunks(text string) (Chunks, error) {
	if strings.ToLower(text) == Chunks(0).String() {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxChunks {
		return 0, errors.New("must be a whole number from 1 to " + strconv.Itoa(maxChunks) + ", or auto")
	}
	return Chunks(n), nil
}

// String writes the number so that parseChunks reads it.
func (c Chunks) String() string {
	if c == 0 {
		return "auto"
	}
	return strconv.Itoa(int(c))
}

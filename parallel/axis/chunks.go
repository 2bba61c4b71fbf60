package axis

import (
	"errors"
	"strconv"
	"strings"
)

// Chunks is a number of chunks. Its text form is the number, or "auto" for 0.
type Chunks int

// maxChunks is more than any graph needs.
const maxChunks = 1 << 16

// UnmarshalText implements encoding.TextUnmarshaler. It reads "8" or "auto".
func (c *Chunks) UnmarshalText(text []byte) error {
	if strings.ToLower(string(text)) == Chunks(0).String() {
		*c = 0
		return nil
	}
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 1 || n > maxChunks {
		return errors.New("must be a whole number from 1 to " + strconv.Itoa(maxChunks) + ", or auto")
	}
	*c = Chunks(n)
	return nil
}

func (c Chunks) String() string {
	if c == 0 {
		return "auto"
	}
	return strconv.Itoa(int(c))
}

// Taking and leaving a workspace, by threads of a CPU.
#ifndef WEFT_TAKE_H
#define WEFT_TAKE_H
#include "workspace.h"

// Takes a free workspace. There always is one, as no more calls run at once than there are workspaces.
static inline void *weft_take_workspace(const weft_workspaces *r) {
	for (int32_t i = 0;; i = (i + 1) % r->count)
		if (!__atomic_exchange_n((int32_t *)(r->first + i * WEFT_LINE), 1, __ATOMIC_ACQUIRE))
			return r->first + r->count * WEFT_LINE + i * r->bytes;
}

static inline void weft_leave_workspace(const weft_workspaces *r, const void *workspace) {
	const int64_t i = ((const char *)workspace - r->first - r->count * WEFT_LINE) / r->bytes;
	__atomic_store_n((int32_t *)(r->first + i * WEFT_LINE), 0, __ATOMIC_RELEASE);
}
#endif

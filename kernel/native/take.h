// Taking a workspace, and leaving it, by threads of a processor.
#ifndef WEFT_TAKE_H
#define WEFT_TAKE_H
#include "workspace.h"

// Takes a free workspace: no more calls are at work at once than there are workspaces.
static inline void *weft_take_workspace(const weft_workspaces *r) {
	for (int32_t i = 0;; i = (i + 1) % r->count) {
		char *workspace = r->first + i * r->bytes;
		if (!__atomic_exchange_n((int32_t *)workspace, 1, __ATOMIC_ACQUIRE))
			return workspace + WEFT_LINE;
	}
}

static inline void weft_leave_workspace(void *workspace) {
	__atomic_store_n((int32_t *)((char *)workspace - WEFT_LINE), 0, __ATOMIC_RELEASE);
}
#endif

/* HTTP/1.1 as far as a report needs it: one request with a chunked body, the status of the final response. */
#include "exporter/delivery.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { MAX_HEAD = 256 * 1024, MAX_INFORMATIONAL = 64, READ_SIZE = 4096, PIECES = 4 };

/* ---- reading ---- */

typedef struct response {
  char head[READ_SIZE]; /* the line that is being read */
  size_t line_len, total;
  bool in_headers, final, long_line;
  unsigned status, informational;
} response;

static bool token_character(unsigned char c) {
  return c > ' ' && c < 0x7F && !strchr("\"(),/:;<=>?@[\\]{}", c);
}

/* "HTTP/1.1 200 OK" */
static bool read_status_line(response *r, nf_error *error) {
  const char *line = r->head;
  static const char version[] = "HTTP/1.";
  size_t len = r->line_len, prefix = sizeof version - 1;
  if (len < prefix + 2 || memcmp(line, version, prefix) != 0 ||
      (line[prefix] != '0' && line[prefix] != '1') || line[prefix + 1] != ' ')
    return nf_error_set(error, "invalid HTTP version parsed");
  const char *code = line + prefix + 2;
  size_t left = len - prefix - 2;
  unsigned status = 0;
  for (size_t i = 0; i < 3; i++) {
    if (i >= left || code[i] < '0' || code[i] > '9')
      return nf_error_set(error, "invalid HTTP status-code parsed");
    status = status * 10 + (unsigned)(code[i] - '0');
  }
  if (status < 100 || (left > 3 && code[3] != ' '))
    return nf_error_set(error, "invalid HTTP status-code parsed");
  r->status = status;
  r->in_headers = true;
  return true;
}

static bool read_header_line(const response *r, nf_error *error) {
  size_t name = 0;
  while (name < r->line_len && token_character((unsigned char)r->head[name])) name++;
  if (name == 0 || (name == r->line_len ? !r->long_line : r->head[name] != ':'))
    return nf_error_set(error, "invalid HTTP header parsed");
  for (size_t i = name; i < r->line_len; i++) {
    unsigned char c = (unsigned char)r->head[i];
    if ((c < 0x20 && c != '\t') || c == 0x7F) return nf_error_set(error, "invalid HTTP header parsed");
  }
  return true;
}

static bool end_line(response *r, nf_error *error) {
  if (r->line_len && !r->long_line && r->head[r->line_len - 1] == '\r') r->line_len--;
  bool empty = r->line_len == 0, ok = true;
  if (!r->in_headers) {
    ok = empty || read_status_line(r, error);
  } else if (!empty) {
    ok = read_header_line(r, error);
  } else {
    r->in_headers = false;
    r->final = r->status >= 200 || r->status == 101;
    if (!r->final && ++r->informational > MAX_INFORMATIONAL)
      ok = nf_error_set(error, "too many informational responses");
  }
  r->line_len = 0;
  r->long_line = false;
  return ok;
}

/* What cannot become a status line is refused at once, not at the end of a line that may never come. */
static bool check_beginning(const response *r, nf_error *error) {
  static const char version[] = "HTTP/1.";
  size_t len = r->line_len < sizeof version - 1 ? r->line_len : sizeof version - 1;
  if (r->in_headers || (r->line_len == 1 && r->head[0] == '\r') || memcmp(r->head, version, len) == 0)
    return true;
  return nf_error_set(error, "invalid HTTP version parsed");
}

static bool parse(response *r, const char *data, size_t len, nf_error *error) {
  for (size_t i = 0; i < len && !r->final; i++) {
    if (++r->total > MAX_HEAD) return nf_error_set(error, "message head is too large");
    if (data[i] == '\n') {
      if (!end_line(r, error)) return false;
    } else if (r->line_len < sizeof r->head) {
      r->head[r->line_len++] = data[i];
      if (!check_beginning(r, error)) return false;
    } else {
      r->long_line = true; /* its end does not matter */
    }
  }
  return true;
}

/* ---- writing ---- */

static ssize_t send_some(nf_delivery *delivery, struct iovec *pieces, size_t count) {
  if (delivery->tls) return nf_tls_send(delivery, pieces[0].iov_base, pieces[0].iov_len);
  struct msghdr message = {.msg_iov = pieces, .msg_iovlen = count};
  return sendmsg(delivery->socket, &message, MSG_NOSIGNAL);
}

static ssize_t receive_some(nf_delivery *delivery, void *data, size_t len) {
  if (delivery->tls) return nf_tls_receive(delivery, data, len);
  return recv(delivery->socket, data, len, 0);
}

static bool would_block(int number) { return number == EAGAIN || number == EWOULDBLOCK; }

static bool io_error(nf_delivery *delivery, const char *what, int number) {
  nf_buffer why = {0};
  nf_text_append_errno(&why, number);
  if (why.failed)
    nf_error_set_no_memory(delivery->error);
  else
    nf_error_set(delivery->error, "%s: %.*s: %.*s", what, (int)why.len, why.data, (int)why.len, why.data);
  nf_buffer_deinit(&why);
  return false;
}

typedef struct exchange {
  struct iovec pieces[PIECES];
  size_t first, count; /* pieces still to be sent */
  response response;
  bool closed;     /* the peer has said its last */
  int write_error; /* kept while an answer may still be there to be read */
} exchange;

/* Reads what is there. */
static bool read_all(nf_delivery *delivery, exchange *e) {
  char data[READ_SIZE];
  while (!e->response.final && !e->closed) {
    ssize_t got = receive_some(delivery, data, sizeof data);
    if (got > 0) {
      if (!parse(&e->response, data, (size_t)got, delivery->error)) return false;
    } else if (got == 0) {
      e->closed = true;
    } else if (errno == EINTR) {
      continue;
    } else if (would_block(errno)) {
      break;
    } else {
      if (e->write_error) return io_error(delivery, "error writing a body to connection", e->write_error);
      return io_error(delivery, "connection error", errno);
    }
  }
  return true;
}

static void write_all(nf_delivery *delivery, exchange *e) {
  while (e->count && !e->write_error) {
    ssize_t sent = send_some(delivery, e->pieces + e->first, e->count);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) {
      if (!would_block(errno)) e->write_error = errno;
      return;
    }
    for (size_t left = (size_t)sent; e->count;) {
      struct iovec *piece = &e->pieces[e->first];
      size_t part = left < piece->iov_len ? left : piece->iov_len;
      piece->iov_base = (char *)piece->iov_base + part;
      piece->iov_len -= part;
      left -= part;
      if (piece->iov_len) break;
      e->first++;
      e->count--;
    }
  }
}

static bool closed_early(nf_delivery *delivery, const exchange *e) {
  if (e->write_error) return io_error(delivery, "error writing a body to connection", e->write_error);
  return nf_error_set(delivery->error, "connection closed before message completed");
}

bool nf_delivery_exchange(nf_delivery *delivery, unsigned *status) {
  nf_request *request = delivery->request;
  char size_line[24];
  static const char last_chunk[] = "\r\n0\r\n\r\n";
  int size_len = snprintf(size_line, sizeof size_line, "%zX\r\n", request->body.len);
  exchange e = {.pieces = {{request->head.data, request->head.len},
                           {size_line, (size_t)size_len},
                           {request->body.data, request->body.len},
                           {(void *)(uintptr_t)last_chunk, sizeof last_chunk - 1}},
                .count = PIECES};
  for (bool first = true;; first = false) {
    /* Once before the first wait, only writing: a response to nothing would be odd. */
    if (!first && !read_all(delivery, &e)) return false;
    if (e.response.final) break;
    if (e.closed) return closed_early(delivery, &e);
    write_all(delivery, &e);
    if (e.write_error) { /* the peer may have answered before it went away */
      if (!read_all(delivery, &e)) return false;
      if (e.response.final) break;
      return closed_early(delivery, &e);
    }
    struct pollfd wanted = {.fd = delivery->socket, .events = (short)(POLLIN | (e.count ? POLLOUT : 0))};
    if (!nf_delivery_wait(delivery, &wanted, 1, -1)) return false;
  }
  *status = e.response.status;
  return true;
}

/// What shards are to be told when all that they had to tell together is in the stream, in the order in which they told it.
struct SafetyLedger {
    struct Ticket: Equatable {
        fileprivate let shard: Int
        fileprivate let index: Int
    }

    private struct Entry {
        let serial: UInt64
        var missing: Int
    }

    private struct Book {
        var entries: [Entry] = []
        /// The index of the first of them.
        var first = 0
    }

    private var books: [Int: Book] = [:]

    /// So many changes of a shard go under this serial, one at least.
    mutating func open(_ serial: UInt64, of shard: Int, count: Int) -> Ticket {
        var book = books[shard] ?? Book()
        book.entries.append(Entry(serial: serial, missing: count))
        books[shard] = book
        return Ticket(shard: shard, index: book.first + book.entries.count - 1)
    }

    /// One of them is in the stream.
    mutating func complete(_ ticket: Ticket, _ sink: some RetainedSink) {
        guard var book = books[ticket.shard], ticket.index >= book.first else { return }
        books[ticket.shard] = nil
        book.entries[ticket.index - book.first].missing -= 1
        let done = book.entries.prefix { $0.missing <= 0 }.count
        if done > 0 {
            let serial = book.entries[done - 1].serial
            book.entries.removeFirst(done)
            book.first += done
            books[ticket.shard] = book
            return sink.isSafe(serial, of: ticket.shard)
        }
        books[ticket.shard] = book
    }
}

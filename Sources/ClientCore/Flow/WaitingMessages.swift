/// Messages that wait for their turn, in the order of their tickets.
struct WaitingMessages: Sendable {
    struct Waiting: Sendable {
        let ticket: PublishTicket
        /// Nil when it was taken back.
        var publication: Publication?
        /// Whether an earlier session of the server's may have got it.
        var wasSent = false
    }

    private var messages: [Waiting] = []
    private var firstIndex = 0
    /// How many were not taken back.
    private(set) var count = 0

    mutating func append(_ waiting: Waiting) {
        messages.append(waiting)
        count += 1
    }

    /// Puts messages before all that wait.
    mutating func insertFirst(_ earlier: [Waiting]) {
        messages.removeFirst(firstIndex)
        firstIndex = 0
        messages.insert(contentsOf: earlier, at: 0)
        count += earlier.count
    }

    /// The one that waits longest. Memory is given back when half of it is taken, so that each message is moved once.
    mutating func removeFirst() -> Waiting? {
        while firstIndex < messages.count {
            let publication = messages[firstIndex].publication.take()
            let waiting = messages[firstIndex]
            firstIndex += 1
            if firstIndex * 2 >= messages.count {
                messages.removeFirst(firstIndex)
                firstIndex = 0
            }
            guard let publication else { continue }
            count -= 1
            return Waiting(ticket: waiting.ticket, publication: publication, wasSent: waiting.wasSent)
        }
        return nil
    }

    /// Takes back a message that was never sent; returns whether it did.
    mutating func withdraw(_ ticket: PublishTicket) -> Bool {
        var (low, high) = (firstIndex, messages.count)
        while low < high {
            let middle = (low + high) / 2
            if messages[middle].ticket < ticket { low = middle + 1 } else { high = middle }
        }
        guard low < messages.count, messages[low].ticket == ticket, !messages[low].wasSent,
            messages[low].publication.take() != nil
        else { return false }
        count -= 1
        // Room for those taken back is kept as long as it is less than what the others take.
        if messages.count - firstIndex > count * 2 {
            messages.removeFirst(firstIndex)
            firstIndex = 0
            messages.removeAll { $0.publication == nil }
        }
        return true
    }

    /// Gives the memory back when nothing waits.
    mutating func trim() {
        if count == 0 { self = WaitingMessages() }
    }
}

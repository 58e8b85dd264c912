/// Messages in order; where asked, the latest of each topic only, at the place of its first.
struct MessageQueue {
    private var messages: [ReceivedMessage?] = []
    private var firstIndex = 0
    /// How many were taken from the front since the beginning: numbers of places stay valid when memory moves.
    private var offset = 0
    private var places: [TopicName: Int] = [:]
    private(set) var count = 0
    /// Of all that wait.
    private(set) var byteCount = 0

    var isEmpty: Bool { count == 0 }

    /// Appends a message, or puts it in the place of one with the same topic; that one is then what `dropOldest` returns next.
    mutating func append(_ message: ReceivedMessage, replacesSameTopic: Bool) {
        byteCount += message.byteCount
        guard replacesSameTopic else {
            messages.append(message)
            count += 1
            return
        }
        if let place = places[message.topic] {
            if let older = messages[place - offset] {
                replaced.append(older)
                byteCount -= older.byteCount
            }
            messages[place - offset] = message
        } else {
            places[message.topic] = offset + messages.count
            messages.append(message)
            count += 1
        }
    }

    /// Appends messages and leaves an empty array. An empty queue takes the array's memory, so that no message is copied. Not for queues that
    /// replace.
    ///
    /// - Parameter bytes: how many they have together.
    mutating func append(contentsOf more: inout [ReceivedMessage?], byteCount bytes: Int) {
        count += more.count
        byteCount += bytes
        guard messages.isEmpty else {
            messages += more
            more.removeAll(keepingCapacity: true)
            return
        }
        swap(&messages, &more)
    }

    private var replaced: [ReceivedMessage] = []

    /// A message that was replaced, or that is too many or too much; the last one stays.
    mutating func dropOldest(beyond most: Int, bytes: Int) -> ReceivedMessage? {
        if let old = replaced.popLast() { return old }
        return count > most || (byteCount > bytes && count > 1) ? popFirst() : nil
    }

    mutating func popFirst() -> ReceivedMessage? {
        guard count > 0, let message = messages[firstIndex] else { return nil }
        messages[firstIndex] = nil
        firstIndex += 1
        count -= 1
        byteCount -= message.byteCount
        if !places.isEmpty { places[message.topic] = nil }
        if firstIndex * 2 >= messages.count {
            messages.removeFirst(firstIndex)
            offset += firstIndex
            firstIndex = 0
        }
        return message
    }

    /// Takes all out: an array without nil.
    mutating func removeAll() -> [ReceivedMessage?] {
        if firstIndex > 0 { messages.removeFirst(firstIndex) }
        var taken: [ReceivedMessage?] = []
        swap(&taken, &messages)
        (firstIndex, offset, count, byteCount) = (0, 0, 0, 0)
        if !places.isEmpty { places = [:] }
        return taken
    }

    /// Puts messages before all others. Not for queues that replace.
    mutating func prepend(_ earlier: ArraySlice<ReceivedMessage?>) {
        let rest = removeAll()
        messages = earlier + rest
        count = messages.count
        byteCount = messages.reduce(0) { $0 + ($1?.byteCount ?? 0) }
        // A topic's place is its first; a later one of the same topic has come since.
    }
}

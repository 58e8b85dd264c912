/// Messages in order; where asked, the latest of each topic only, at the place of its first.
struct MessageQueue {
    private var messages: [ReceivedMessage?] = []
    private var firstIndex = 0
    /// How many were taken from the front since the beginning: numbers of places stay valid when memory moves.
    private var offset = 0
    private var places: [TopicName: Int] = [:]
    private(set) var count = 0

    var isEmpty: Bool { count == 0 }

    /// Appends a message, or puts it in the place of one with the same topic; that one is then what `dropOldest` returns next.
    mutating func append(_ message: ReceivedMessage, replacesSameTopic: Bool) {
        guard replacesSameTopic else {
            messages.append(message)
            count += 1
            return
        }
        if let place = places[message.topic] {
            if let older = messages[place - offset] { replaced.append(older) }
            messages[place - offset] = message
        } else {
            places[message.topic] = offset + messages.count
            messages.append(message)
            count += 1
        }
    }

    private var replaced: [ReceivedMessage] = []

    /// A message that was replaced, or that is too many.
    mutating func dropOldest(beyond most: Int) -> ReceivedMessage? {
        if let old = replaced.popLast() { return old }
        return count > most ? popFirst() : nil
    }

    mutating func popFirst() -> ReceivedMessage? {
        guard count > 0, let message = messages[firstIndex] else { return nil }
        messages[firstIndex] = nil
        firstIndex += 1
        count -= 1
        if !places.isEmpty { places[message.topic] = nil }
        if firstIndex * 2 >= messages.count {
            messages.removeFirst(firstIndex)
            offset += firstIndex
            firstIndex = 0
        }
        return message
    }

    mutating func removeAll() -> [ReceivedMessage] {
        defer { self = MessageQueue() }
        return messages.compactMap(\.self)
    }

    /// Puts messages before all others. Not for queues that replace.
    mutating func prepend(_ earlier: ArraySlice<ReceivedMessage>) {
        let rest = removeAll()
        messages = earlier.map(\.self) + rest
        count = messages.count
        // A topic's place is its first; a later one of the same topic has come since.
    }
}

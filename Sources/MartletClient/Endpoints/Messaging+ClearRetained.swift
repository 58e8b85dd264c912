internal import Platform

extension Messaging {
    /// Removes the message that the server keeps at the topic, if there is one; returns when the server has done so.
    public func clearRetained(_ topic: TopicName) async throws(ClientError) {
        try await publish(Publication(topic, Payload(), qos: .atLeastOnce, retain: true))
    }

    /// As above, at an endpoint's topic.
    public func clearRetained<Value>(_ topic: EndpointTopic<Value>) async throws(ClientError) {
        try await clearRetained(try topic.name)
    }

    /// Removes all messages that the server keeps at topics that match, and returns how many.
    ///
    /// What there is to remove is a guess: the standard lets nobody see when a server has sent all that it keeps. All is taken to be there
    /// when nothing more has come for the time `quiet`; a slower server keeps the rest. What is published meanwhile may stay, too.
    ///
    /// Throws `ClientError.cancelled` when the task is cancelled; what was removed until then stays so.
    @discardableResult
    public func clearRetained(matching filter: TopicFilter, quiet: Duration = .milliseconds(250)) async throws(ClientError) -> Int {
        var count = 0
        while true {
            let (topics, isAll) = try await retainedTopics(filter, quiet)
            for topic in topics {
                if Task.isCancelled { throw .cancelled }
                try await clearRetained(topic)
            }
            count += topics.count
            // What came faster than it could be looked at comes again.
            if isAll || topics.isEmpty { return count }
        }
    }

    /// The topics of the retained messages that a subscription brings, and whether none was dropped.
    private func retainedTopics(_ filter: TopicFilter, _ quiet: Duration) async throws(ClientError) -> ([TopicName], isAll: Bool) {
        var settings = SubscriptionSettings(qos: .atLeastOnce, backlog: .hold)
        settings.retainHandling = .sendAtSubscribe
        let messages = messages([filter], settings)
        defer { messages.cancel() }
        try await messages.grantedUnlessCancelled()
        return (try await retainedTopics(messages, quiet), messages.droppedCount == 0)
    }

    /// The topics of all retained messages, in the order in which they came, until none has come for a while.
    private func retainedTopics(_ messages: Messages, _ quiet: Duration) async throws(ClientError) -> [TopicName] {
        let found = Locked(FoundTopics())
        let gathering = Task {
            defer { found.withLock { $0.isOver = true } }
            for try await message in messages where message.retain && !message.payload.isEmpty {
                found.withLock { $0.topics.append(message.topic) }
            }
        }
        defer { gathering.cancel() }
        var count = -1
        while true {
            let state = found.value
            if state.isOver || (state.topics.count == count && messages.isConsumerWaiting) { return state.topics }
            count = state.topics.count
            do { try await clock.sleep(for: quiet) } catch { throw .cancelled }
        }
    }
}

private struct FoundTopics {
    var topics: [TopicName] = []
    /// Whether the subscription has ended.
    var isOver = false
}

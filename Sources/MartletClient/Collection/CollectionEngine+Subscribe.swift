internal import Platform

/// Subscriptions, and what comes for them.
extension CollectionEngine {
    /// Begins: the subscription is declared before this returns.
    func start() {
        let first = renew()
        followRestoredWrites()
        guard let observer = messaging as? any ConnectionObserving else {
            return follow(first, .v5, connection: nil)
        }
        let observing = Task(executorPreference: executor) { [weak self] in
            var observation = ConnectionObservation(first)
            for await server in observer.connections() {
                guard let self else { return }
                notice(server, &observation)
            }
        }
        state.withLock { $0.observing = observing }
    }

    /// What is known of connections.
    private struct ConnectionObservation {
        var subscription: CollectionSubscription
        /// The connection on which the subscription was first made; nil before that.
        var connectionNumber: UInt64?

        init(_ subscription: CollectionSubscription) { self.subscription = subscription }
    }

    private func notice(_ server: ConnectedServer?, _ known: inout ConnectionObservation) {
        state.withLock { $0.isOnline = server != nil }
        let number = known.connectionNumber
        if number != nil, server?.connectionNumber != number {
            // A picture that is not whole cannot be completed on another connection: its end mark is lost.
            let isWhole = state.withLock { !$0.collection.isGathering }
            let isKept = settings.resynchronize == .whenSessionLost && isWhole && server?.isSessionPresent ?? true
            if isKept {
                if let server { known.connectionNumber = server.connectionNumber }
            } else {
                known = ConnectionObservation(renew())
            }
        }
        if let server, known.connectionNumber == nil {
            known.connectionNumber = server.connectionNumber
            follow(known.subscription, server.version, connection: server.connectionNumber)
        }
    }

    /// Makes a new subscription in place of the present one.
    private func renew() -> CollectionSubscription {
        let old = state.withLock { state in
            state.collection.begin()
            state.generation += 1
            return state.subscription.take()
        }
        let subscription = CollectionSubscription(messaging, filter, settings, chance: chance())
        let isEnded = state.withLock { state in
            if !state.isEnded { state.subscription = subscription }
            return state.isEnded
        }
        // After the new one is declared, so that the client does not unsubscribe what both want.
        old?.cancel()
        if isEnded { subscription.cancel() }
        return subscription
    }

    /// - Parameter connection: the number of the one on which it was made; nil where nobody tells of connections.
    private func follow(
        _ subscription: CollectionSubscription, _ version: ProtocolVersion, connection: UInt64?
    ) {
        state.withLock { $0.collection.speaks(version) }
        let reading = Task(executorPreference: executor) { [self] in
            do throws(ClientError) {
                while let batch = try await subscription.messages.nextBatch() {
                    if !isForgotten(connection) { take(batch, subscription) }
                    // The picture is not whole any more.
                    if subscription.messages.droppedCount > 0, isCurrent(subscription) {
                        return follow(renew(), version, connection: connection)
                    }
                }
                if isCurrent(subscription) { end() }
            } catch {
                if isCurrent(subscription) { end(error) }
            }
        }
        let ending = Task(executorPreference: executor) { [self] in await guessEnd(of: subscription, connection) }
        subscription.progress.withLock { $0.tasks = [reading, ending] }
        // It may have been given up meanwhile.
        if !isCurrent(subscription) { subscription.cancel() }
    }

    /// Whether there is a later connection already than the one on which a subscription was made, and everything is to be asked for anew on it.
    /// The client makes its subscriptions again before this collection hears of the connection: what the old one is told then would show a part
    /// of the new picture before the rest.
    private func isForgotten(_ connection: UInt64?) -> Bool {
        guard let connection, let present = (messaging as? any ConnectionObserving)?.connection,
            present.connectionNumber != connection
        else { return false }
        if settings.resynchronize == .always || !present.isSessionPresent { return true }
        return state.withLock { $0.collection.isGathering }
    }

    private func isCurrent(_ subscription: CollectionSubscription) -> Bool {
        state.withLock { $0.subscription === subscription }
    }

    private func take(_ batch: [ReceivedMessage], _ subscription: CollectionSubscription) {
        var isWhole = false
        change { state in
            guard state.subscription === subscription else { return }
            for message in batch {
                if message.topic == subscription.mark {
                    isWhole = isWhole || state.collection.isGathering
                    state.collection.ended(identifier: message.greatestSubscriptionIdentifier)
                } else if message.topic == subscription.fence {
                    subscription.progress.withLock { $0.fenceIdentifier = message.greatestSubscriptionIdentifier }
                } else {
                    if message.retain { subscription.progress.withLock { $0.retainedCount += 1 } }
                    state.collection.received(message)
                }
            }
        }
        if isWhole { retainedPictureIsWhole() }
    }

    /// Ends the gathering where the server does not tell: when the collection's own message has come back, and nothing retained has come for a
    /// while; or when both take too long, as where values are published without a pause.
    private func guessEnd(of subscription: CollectionSubscription, _ connection: UInt64?) async {
        guard let granted = try? await subscription.messages.granted() else { return }
        if subscription.willBeMarked(granted) { return }
        var hasFence = false
        if let fence = subscription.fence, granted.count < 3 || !granted[2].isError {
            hasFence = (try? await messaging.publish(Publication(fence, Payload([1]), qos: .atLeastOnce))) != nil
        }
        var retainedCount = -1
        for turn in 0..<Limits.quietTurnsMax {
            let progress = subscription.progress.withLock { ($0.retainedCount, $0.fenceIdentifier) }
            let isBack = progress.1 != nil || !hasFence || turn >= Limits.fenceTurnsMax
            if isBack, progress.0 == retainedCount { break }
            retainedCount = progress.0
            do { try await messaging.clock.sleep(for: settings.quiet) } catch { return }
        }
        if isForgotten(connection) { return }
        var isWhole = false
        change { state in
            guard state.subscription === subscription, state.collection.isGathering else { return }
            isWhole = true
            state.collection.ended(identifier: subscription.progress.withLock(\.fenceIdentifier) ?? 0)
        }
        if isWhole { retainedPictureIsWhole() }
    }
}

package import BrokerCore
import BrokerModel
package import Security

/// The files of users, rules and keys of all listeners, in memory. Immutable: a reload makes new ones, or fails and leaves the old in force.
package struct SecurityTables: Sendable {
    /// In the order of the configuration.
    package let listeners: [ListenerSecurity]
    /// Warnings of what is probably not meant as it stands in the files.
    package let warnings: [SecurityFileProblem]

    package init(listeners: [ListenerSecurity], warnings: [SecurityFileProblem]) {
        (self.listeners, self.warnings) = (listeners, warnings)
    }

    /// Whether a login that was accepted by earlier tables of the same listeners would be accepted by these.
    package func keeps(_ login: ConnectedLogin, of earlier: SecurityTables) -> Bool {
        listeners[login.info.listener].keeps(login, of: earlier.listeners[login.info.listener])
    }
}

/// The part of a file that an option belongs into.
public enum ConfigurationSection: String, Sendable, CaseIterable {
    /// Anywhere; holds for the broker.
    case global
    /// Anywhere, for the broker; with `per_listener_settings true` in a listener's section, for the listener.
    case security
    /// In a listener's section, for the listener; anywhere else, for all listeners that have none of their own.
    case listenerOrGlobal
    /// After a `listener` line; before the first of them, for the default listener.
    case listener
    /// After a `connection` line.
    case bridge
}

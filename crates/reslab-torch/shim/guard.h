// No exception crosses the border to Rust: a function that can fail returns null, or the error's text, which the caller
// gives back to `reslab_free`.

#pragma once

#include <cstring>
#include <exception>

#include <c10/util/Exception.h>

inline char* text(const char* what) {
    char* copy = strdup(what);
    // Null means success, so a failure without memory for its text still needs one.
    return copy ? copy : strdup("");
}

template <typename Body>
char* guarded(Body body) noexcept {
    try {
        body();
        return nullptr;
    } catch (const c10::Error& error) {
        return text(error.what_without_backtrace());
    } catch (const std::exception& error) {
        return text(error.what());
    } catch (...) {
        return text("unknown C++ exception");
    }
}

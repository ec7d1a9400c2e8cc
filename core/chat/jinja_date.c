/* Jinja: strftime_now.
 * SPDX-License-Identifier: MIT */
#include "chat/jinja_own.h"

typedef struct date {
    int64_t seconds;                            /* since 1970 */
    int     year, month, day, of_year, weekday, hour;       /* month from 1, weekday from Sunday */
} date;

static date date_of(int64_t seconds)
{
    const int64_t day = seconds / 86400, z = day + 719468;  /* from 1970 on; z counts from 0000-03-01 */
    const int64_t era = z / 146097, of_era = z % 146097,
                  year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    const int64_t of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100),
                  m = (5 * of_year + 2) / 153;
    date d = { .seconds = seconds };
    d.month = (int)(m < 10 ? m + 3 : m - 9);
    d.day = (int)(of_year - (153 * m + 2) / 5 + 1);
    d.year = (int)(year_of_era + era * 400 + (d.month <= 2));
    const bool leap = (d.year % 4 == 0 && d.year % 100) || d.year % 400 == 0;
    d.of_year = (int)(d.month > 2 ? of_year + 60 + leap : of_year - 305);
    d.weekday = (int)((day + 4) % 7);
    d.hour = (int)(seconds / 3600 % 24);
    return d;
}

/* The text of one conversion; "": an unknown one. */
static void date_part(const date *d, char form, bool bare, char out[32])
{
    static const char *const months[] = { "January", "February", "March", "April", "May", "June", "July",
                                          "August", "September", "October", "November", "December" };
    static const char *const days[] = { "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday",
                                        "Saturday" };
    const char *month = months[d->month - 1], *day = days[d->weekday];
    int n = -1, digits = 2;
    *out = 0;
    switch (form) {
    case 'Y': n = d->year; digits = 4; break;
    case 'y': n = d->year % 100; break;
    case 'C': n = d->year / 100; break;
    case 'm': n = d->month; break;
    case 'd': n = d->day; break;
    case 'e': qsf_format(out, 32, bare ? "%d" : "%2d", d->day); break;
    case 'j': n = d->of_year; digits = 3; break;
    case 'H': n = d->hour; break;
    case 'I': n = (d->hour + 11) % 12 + 1; break;
    case 'M': n = (int)(d->seconds / 60 % 60); break;
    case 'S': n = (int)(d->seconds % 60); break;
    case 'w': n = d->weekday; digits = 1; break;
    case 'u': n = (d->weekday + 6) % 7 + 1; digits = 1; break;
    case 'U': n = (d->of_year + 6 - d->weekday) / 7; break;
    case 'W': n = (d->of_year + 6 - (d->weekday + 6) % 7) / 7; break;
    case 'f': n = 0; digits = 6; break;
    case 'B': qsf_format(out, 32, "%s", month); break;
    case 'b': case 'h': qsf_format(out, 32, "%.3s", month); break;
    case 'A': qsf_format(out, 32, "%s", day); break;
    case 'a': qsf_format(out, 32, "%.3s", day); break;
    case 'p': qsf_format(out, 32, "%s", d->hour < 12 ? "AM" : "PM"); break;
    case '%': qsf_format(out, 32, "%%"); break;
    case 'n': qsf_format(out, 32, "\n"); break;
    case 't': qsf_format(out, 32, "\t"); break;
    default: break;
    }
    if (n >= 0 && digits == 6) qsf_format(out, 32, "000000");
    else if (n >= 0) qsf_format(out, 32, bare ? "%d" : digits == 4 ? "%04d" : digits == 3 ? "%03d"
                                                   : digits == 2 ? "%02d" : "%d", n);
}

/* Conversions that are short for several others. */
static const char *date_long(char form)
{
    return form == 'F' ? "%Y-%m-%d" : form == 'D' || form == 'x' ? "%m/%d/%y" : form == 'R' ? "%H:%M"
           : form == 'T' || form == 'X' ? "%H:%M:%S" : form == 'r' ? "%I:%M:%S %p"
           : form == 'c' ? "%a %b %e %H:%M:%S %Y" : NULL;
}

bool qsf_jinja_strftime(jinja_run *r, const jinja_value *format, jinja_value *out)
{
    const date d = date_of(r->now);
    jinja_sink s = qsf_jinja_begin_text(r);
    for (uint32_t i = 0; i < format->n; i++) {
        const char *p = format->as.text, *parts;
        char text[32];
        if (p[i] != '%') {
            if (!qsf_jinja_put_part(r, &s, format, i, 1)) return false;
            continue;
        }
        const bool bare = i + 1 < format->n && p[i + 1] == '-';
        i += 1 + bare;
        const char form = i < format->n ? p[i] : 0;
        if (!(parts = date_long(form))) {
            date_part(&d, form, bare, text);
            if (!*text && form != 'Z' && form != 'z')       /* the clock on the wall has no zone */
                return qsf_jinja_unknown(r, "this format of a date is not supported");
            if (!qsf_jinja_put(r, &s, text, strlen(text))) return false;
            continue;
        }
        for (; *parts; parts++) {
            if (*parts == '%') date_part(&d, *++parts, false, text);
            else text[0] = *parts, text[1] = 0;
            if (!qsf_jinja_put(r, &s, text, strlen(text))) return false;
        }
    }
    *out = qsf_jinja_end_text(r, &s);
    return qsf_jinja_charge_each(r, format->n);
}
